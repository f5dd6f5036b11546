//! A queue in one piece of memory, whose entries are written where they stay.

/// First in, first out. Unlike the standard library's queue it hands out the place of a new entry
/// to be written in, so that a large entry is not made elsewhere and copied; places that are free
/// hold old entries.
#[derive(Clone, Debug)]
pub struct Ring<T> {
    /// All of them are used in turn, so that the memory that is touched follows their number: they
    /// grow by halves.
    places: Box<[T]>,
    /// Place of the first entry, and of the next to come.
    head: usize,
    tail: usize,
    len: usize,
}

impl<T: Copy> Ring<T> {
    /// An empty ring; `blank` fills the places that have never been used.
    pub fn new(blank: T) -> Self {
        Self { places: vec![blank; 4].into(), head: 0, tail: 0, len: 0 }
    }

    /// Entries in it.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// It has no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entry that came first.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        if self.is_empty() { None } else { Some(&self.places[self.head]) }
    }

    /// Appends an entry and hands out its place: whatever stood there must be overwritten.
    #[inline]
    pub fn push(&mut self) -> &mut T {
        if self.len == self.places.len() {
            self.grow();
        }
        let place = self.tail;
        self.tail = self.after(place);
        self.len += 1;
        &mut self.places[place]
    }

    /// Forgets the first entry.
    #[inline]
    pub fn pop(&mut self) {
        debug_assert!(!self.is_empty(), "there is an entry to forget");
        self.head = self.after(self.head);
        self.len -= 1;
    }

    /// Takes the first entry out, which stands in its place until the next one comes, and shows the
    /// one behind it. There must be one.
    #[inline]
    pub fn take(&mut self) -> (&T, Option<&T>) {
        let first = self.head;
        self.pop();
        (&self.places[first], if self.len == 0 { None } else { Some(&self.places[self.head]) })
    }

    /// Puts an entry behind `ahead` others and hands out its place.
    pub fn insert(&mut self, ahead: usize, entry: T) -> &mut T {
        *self.push() = entry;
        debug_assert!(ahead < self.len, "no more entries stand before it than there are");
        for number in (ahead..self.len - 1).rev() {
            let (a, b) = (self.place(number), self.place(number + 1));
            self.places.swap(a, b);
        }
        let place = self.place(ahead);
        &mut self.places[place]
    }

    /// The entries, first to last.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        (0..self.len).map(|ahead| &self.places[self.place(ahead)])
    }

    /// The place behind a place.
    #[inline]
    fn after(&self, place: usize) -> usize {
        if place + 1 < self.places.len() { place + 1 } else { 0 }
    }

    /// Where the entry behind `ahead` others, at most all, stands.
    #[inline]
    fn place(&self, ahead: usize) -> usize {
        let place = self.head + ahead;
        if place < self.places.len() { place } else { place - self.places.len() }
    }

    #[cold]
    fn grow(&mut self) {
        let mut places: Vec<T> = self.iter().copied().collect();
        (self.head, self.tail) = (0, places.len());
        places.extend_from_within(..places.len() / 2);
        self.places = places.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn it_does_what_the_standard_queue_does(steps in prop::collection::vec((0_u8..5, any::<u16>()), 0..200)) {
            let (mut ring, mut model) = (Ring::new(0_u16), VecDeque::new());
            for (step, value) in steps {
                match step {
                    0 | 1 => {
                        *ring.push() = value;
                        model.push_back(value);
                    }
                    2 => {
                        let ahead = usize::from(value) % (model.len() + 1);
                        ring.insert(ahead, value);
                        model.insert(ahead, value);
                    }
                    3 if !model.is_empty() => {
                        ring.pop();
                        model.pop_front();
                    }
                    4 if !model.is_empty() => {
                        let (first, next) = ring.take();
                        prop_assert_eq!((Some(*first), next), (model.pop_front(), model.front()));
                    }
                    _ => {}
                }
                prop_assert!(ring.iter().eq(model.iter()));
                prop_assert_eq!(ring.len(), model.len());
                prop_assert_eq!(ring.front(), model.front());
            }
        }
    }
}
