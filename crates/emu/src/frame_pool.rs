//! Memory for packets on their way: places of one size, used again and again.

/// A place in the store.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrameSlot(pub(crate) u32);

#[derive(Debug)]
pub(crate) struct FramePool {
    places: Vec<Box<[u8]>>,
    /// The place that was used last is used first: it is in the processor's cache.
    free: Vec<u32>,
    size: usize,
    most: usize,
}

impl FramePool {
    /// A store for packets of at most `size` bytes that takes at most `room` bytes.
    pub(crate) fn new(size: usize, room: usize) -> Self {
        Self { places: Vec::new(), free: Vec::new(), size, most: room / size }
    }

    /// Copies a packet; none if the store is full or the packet too long.
    #[inline]
    pub(crate) fn keep(&mut self, bytes: &[u8]) -> Option<FrameSlot> {
        let number = match self.free.pop() {
            Some(number) => number,
            None => self.grow()?,
        };
        match self.places[number as usize].get_mut(..bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                Some(FrameSlot(number))
            }
            None => {
                self.free.push(number);
                None
            }
        }
    }

    #[inline]
    pub(crate) fn get(&self, slot: FrameSlot, length: usize) -> &[u8] {
        &self.places[slot.0 as usize][..length]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: FrameSlot, length: usize) -> &mut [u8] {
        &mut self.places[slot.0 as usize][..length]
    }

    /// Forgets a packet.
    #[inline]
    pub(crate) fn release(&mut self, slot: FrameSlot) {
        debug_assert!((slot.0 as usize) < self.places.len() && self.free.len() < self.places.len(), "a place is freed once");
        self.free.push(slot.0);
    }

    /// How many packets are kept.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.places.len() - self.free.len()
    }

    #[cold]
    fn grow(&mut self) -> Option<u32> {
        if self.places.len() >= self.most {
            return None;
        }
        self.places.push(vec![0; self.size].into());
        Some(self.places.len() as u32 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_store_keeps_nothing_more_until_something_goes() {
        let mut store = FramePool::new(4, 8);
        let (a, b) = (store.keep(b"ab").unwrap(), store.keep(b"cdef").unwrap());
        assert_eq!((store.get(a, 2), store.get(b, 4), store.kept()), (&b"ab"[..], &b"cdef"[..], 2));
        assert_eq!(store.keep(b"x"), None);
        store.release(a);
        assert_eq!(store.keep(b"too long"), None);
        assert!(store.keep(b"gh").is_some());
    }
}
