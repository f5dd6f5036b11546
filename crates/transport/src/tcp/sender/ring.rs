//! A queue with places by number: the scoreboard's, which is looked at and popped with every ACK.

use std::ops::{Index, IndexMut};

/// First in, first out. Unlike the standard library's queue it drops several entries at once, and
/// finds a place without a branch but the check of its bounds.
#[derive(Debug)]
pub(super) struct Ring<T> {
    /// None before the first entry, then as many as a power of two; those that hold no entry hold an
    /// old or a blank one.
    places: Vec<T>,
    /// Place of the first entry, not reduced to the number of places.
    head: usize,
    len: usize,
}

/// Places that the first entry brings.
const FEWEST: usize = 16;

impl<T: Copy + Default> Default for Ring<T> {
    fn default() -> Self {
        Self { places: Vec::new(), head: 0, len: 0 }
    }
}

impl<T: Copy + Default> Ring<T> {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&T> {
        if index < self.len { Some(&self.places[self.place(index)]) } else { None }
    }

    #[inline]
    pub(super) fn front(&self) -> Option<&T> {
        self.get(0)
    }

    #[inline]
    pub(super) fn front_mut(&mut self) -> Option<&mut T> {
        if self.len > 0 { Some(&mut self[0]) } else { None }
    }

    #[inline]
    pub(super) fn push(&mut self, entry: T) {
        if self.len == self.places.len() {
            self.grow();
        }
        let place = self.place(self.len);
        self.places[place] = entry;
        self.len += 1;
    }

    /// Drops the first `count` entries; there must be so many.
    #[inline]
    pub(super) fn pop(&mut self, count: usize) {
        debug_assert!(count <= self.len, "only what is there can go");
        self.head = self.head.wrapping_add(count);
        self.len -= count;
    }

    /// Puts an entry before the one with this number, or at the end.
    pub(super) fn insert(&mut self, index: usize, entry: T) {
        self.push(entry);
        for at in (index..self.len - 1).rev() {
            let (a, b) = (self.place(at), self.place(at + 1));
            self.places.swap(a, b);
        }
    }

    /// Takes the entry with this number out.
    pub(super) fn remove(&mut self, index: usize) -> T {
        let entry = self[index];
        for at in index..self.len - 1 {
            let (a, b) = (self.place(at), self.place(at + 1));
            self.places.swap(a, b);
        }
        self.len -= 1;
        entry
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len).map(|index| &self.places[self.place(index)])
    }

    /// The entries in no particular order.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let size = self.places.len();
        let head = self.head & size.wrapping_sub(1);
        let wrapped = (head + self.len).saturating_sub(size);
        let (front, back) = self.places.split_at_mut(head);
        let end = (self.len - wrapped).min(back.len());
        back[..end].iter_mut().chain(&mut front[..wrapped])
    }

    #[inline]
    fn place(&self, index: usize) -> usize {
        self.head.wrapping_add(index) & self.places.len().wrapping_sub(1)
    }

    #[cold]
    fn grow(&mut self) {
        let mut places: Vec<T> = self.iter().copied().collect();
        places.resize((2 * self.places.len()).max(FEWEST), T::default());
        self.places = places;
        self.head = 0;
    }
}

impl<T: Copy + Default> Index<usize> for Ring<T> {
    type Output = T;
    #[inline]
    fn index(&self, index: usize) -> &T {
        debug_assert!(index < self.len, "entry {index} of {}", self.len);
        &self.places[self.place(index)]
    }
}

impl<T: Copy + Default> IndexMut<usize> for Ring<T> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        debug_assert!(index < self.len, "entry {index} of {}", self.len);
        let place = self.place(index);
        &mut self.places[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn it_does_what_the_standard_queue_does(steps in prop::collection::vec((0_u8..5, any::<u16>()), 0..300)) {
            let (mut ring, mut model) = (Ring::<u16>::default(), VecDeque::new());
            for (step, value) in steps {
                let some = usize::from(value) % (model.len() + 1);
                match step {
                    0..3 => {
                        ring.push(value);
                        model.push_back(value);
                    }
                    3 => {
                        ring.pop(some);
                        model.drain(..some);
                    }
                    _ => {
                        ring.insert(some, value);
                        model.insert(some, value);
                    }
                }
                prop_assert_eq!(ring.len(), model.len());
                prop_assert_eq!((ring.front(), ring.get(some)), (model.front(), model.get(some)));
                prop_assert!(ring.iter().eq(&model));
                ring.iter_mut().for_each(|entry| *entry = entry.wrapping_add(1));
                model.iter_mut().for_each(|entry| *entry = entry.wrapping_add(1));
                prop_assert!((0..model.len()).all(|index| ring[index] == model[index]));
            }
        }
    }
}
