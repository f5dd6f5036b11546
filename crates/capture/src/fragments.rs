//! TCP segments in fragments of IP: put together by their lengths, since only the first fragment
//! has the segment's header (RFC 791 section 3.2).

use crate::frame::{Dissected, Frame, Head, Piece};
use crate::ranges::Ranges;
use std::collections::VecDeque;

/// Segments that wait for fragments, at most; older ones are given up, as hosts do after some
/// seconds.
const WAITING: usize = 64;

#[derive(Debug)]
struct Waiting {
    file: usize,
    /// Any of its fragments.
    piece: Piece,
    count: u64,
    seen: Ranges<()>,
    /// Bytes of the packet without its header, once the last fragment was seen.
    end: Option<u64>,
    head: Option<(Head, u32)>,
}

#[derive(Debug, Default)]
pub(crate) struct Fragments {
    waiting: VecDeque<Waiting>,
}

impl Fragments {
    /// A fragment that a file shows. With the last one that was missing the segment is whole;
    /// `given_up` is called with a file, and how many of its fragments will not become one.
    pub(crate) fn add(
        &mut self,
        file: usize,
        piece: Piece,
        head: Option<(Head, u32)>,
        mut given_up: impl FnMut(usize, u64),
    ) -> Option<(Head, u32)> {
        let is_same = |each: &Waiting| each.file == file && each.piece.is_of(&piece);
        let at = self.waiting.iter().position(is_same).unwrap_or_else(|| {
            if self.waiting.len() == WAITING {
                self.waiting.pop_front().into_iter().for_each(|oldest| given_up(oldest.file, oldest.count));
            }
            self.waiting.push_back(Waiting { file, piece, count: 0, seen: Ranges::default(), end: None, head: None });
            self.waiting.len() - 1
        });
        let found = &mut self.waiting[at];
        let end = u64::from(piece.offset) + u64::from(piece.len);
        found.count += 1;
        found.seen.add(u64::from(piece.offset)..end, (), WAITING);
        found.end = if piece.has_more { found.end } else { Some(end) };
        found.head = found.head.take().or(head);
        let whole = found.end.filter(|&end| found.head.is_some() && found.seen.count(0..end) == end)?;
        let (head, ip_len) = self.waiting.remove(at)?.head?;
        Some((head.with_len(whole as u32)?, ip_len))
    }

    /// What never became whole: files, and how many fragments.
    pub(crate) fn left(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.waiting.iter().map(|each| (each.file, each.count))
    }
}

/// What a fragment brings: itself, and the beginning of the segment if that is in it.
pub(crate) fn parts(found: &Dissected<'_>) -> Option<(Piece, Option<(Head, u32)>)> {
    match found.frame {
        Frame::Piece(piece, segment) => Some((piece, segment.map(|segment| (Head::of(&segment, piece.before), found.ip_len)))),
        _ => None,
    }
}
