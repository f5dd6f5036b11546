//! Packets that wait in the receive queue or beyond a hole, each a piece of memory of its own: what
//! they take depends on how the peer has cut them ([`Device::Tun`](crate::Device)).

use crate::receive_buffer::Truesize;
use polypath_base::Seq;
use std::collections::VecDeque;

#[derive(Copy, Clone, Debug)]
struct Packet {
    seq: Seq,
    end: Seq,
    memory: Truesize,
}

impl Packet {
    /// Has the data `seq..end` copied into its room, if it continues it and there is as much.
    fn takes(&mut self, seq: Seq, end: Seq) -> bool {
        let len = end.distance(seq);
        let takes = self.end == seq && self.memory.room >= len;
        if takes {
            (self.end, self.memory.room) = (end, self.memory.room - len);
        }
        takes
    }
}

#[derive(Debug, Default)]
pub(crate) struct Packets {
    packets: VecDeque<Packet>,
    bytes: u64,
    /// What the newest packet takes; nothing if another one had room for its data.
    newest: u32,
}

impl Packets {
    /// Memory that they take.
    pub(crate) fn truesize(&self) -> u64 {
        self.bytes
    }

    /// Memory that the newest one takes.
    pub(crate) fn newest(&self) -> u32 {
        self.newest
    }

    /// `seq..end` has come beyond a hole in a packet of this memory; what it covers goes (Linux:
    /// `tcp_data_queue_ofo`).
    #[cold]
    pub(crate) fn insert(&mut self, seq: Seq, end: Seq, memory: Truesize) {
        let at = self.packets.partition_point(|one| one.seq.before(seq));
        while let Some(following) = self.packets.get(at).filter(|following| !following.end.after(end)) {
            self.bytes -= u64::from(following.memory.bytes);
            self.packets.remove(at);
        }
        self.add(seq, end, memory);
    }

    /// `seq..end` has come in a packet of this memory. Into the room of what it continues it is
    /// copied (Linux: `skb_try_coalesce`).
    #[cold]
    pub(crate) fn add(&mut self, seq: Seq, end: Seq, memory: Truesize) {
        let mut at = self.packets.len();
        while at > 0 && !self.packets[at - 1].seq.before(seq) {
            at -= 1;
        }
        if at.checked_sub(1).is_some_and(|before| self.packets[before].takes(seq, end)) {
            self.newest = 0;
            return;
        }
        self.newest = memory.bytes;
        self.bytes += u64::from(memory.bytes);
        self.packets.insert(at, Packet { seq, end, memory });
    }

    /// A hole is filled: of what waited behind it, up to `seq`, goes what came again, and the rest
    /// is copied into the room of what it continues (Linux: `tcp_ofo_queue`).
    pub(crate) fn join(&mut self, seq: Seq) {
        let mut at = 1;
        while let Some(&Packet { seq: from, end, memory }) = self.packets.get(at).filter(|next| !next.end.after(seq)) {
            let before = &mut self.packets[at - 1];
            if !end.after(before.end) || before.takes(from, end) {
                self.bytes -= u64::from(memory.bytes);
                self.packets.remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// The program has read everything before `seq`.
    #[inline]
    pub(crate) fn read(&mut self, seq: Seq) {
        if !self.packets.is_empty() {
            self.forget_before(seq);
        }
    }

    #[cold]
    fn forget_before(&mut self, seq: Seq) {
        while self.pop(seq).is_some() {}
    }

    /// The first one, if it ends by `seq`: where it ends, and its memory.
    pub(crate) fn pop(&mut self, seq: Seq) -> Option<(Seq, Truesize)> {
        let first = *self.packets.front().filter(|first| !first.end.after(seq))?;
        self.bytes -= u64::from(first.memory.bytes);
        self.packets.pop_front();
        Some((first.end, first.memory))
    }

    /// Nothing waits from `seq` on any more.
    pub(crate) fn forget_from(&mut self, seq: Seq) {
        while let Some(last) = self.packets.back().filter(|last| !last.seq.before(seq)) {
            self.bytes -= u64::from(last.memory.bytes);
            self.packets.pop_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_takes_its_memory_unless_the_one_before_has_room_for_its_data() {
        let memory = Truesize { bytes: 896, room: 100, ..Truesize::default() };
        let mut packets = Packets::default();
        for (seq, end, newest, all) in
            [(1, 101, 896, 896), (101, 181, 0, 896), (181, 211, 896, 1792), (301, 401, 896, 2688), (251, 401, 896, 2688)]
        {
            packets.insert(Seq::new(seq), Seq::new(end), memory);
            assert_eq!((packets.newest(), packets.truesize()), (newest, all), "{seq}");
        }
        packets.insert(Seq::new(211), Seq::new(251), memory);
        packets.join(Seq::new(401));
        assert_eq!(packets.truesize(), 2688, "the last has more than there is room for");
        packets.read(Seq::new(181));
        assert_eq!(packets.truesize(), 2 * 896);
        packets.forget_from(Seq::new(251));
        assert_eq!(packets.truesize(), 896);
    }
}
