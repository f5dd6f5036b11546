//! A place in a line, and what can be read from there.

/// A sentence on what is wrong with a line.
pub(super) type Read<T> = Result<T, String>;

/// Who sends a packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// The script.
    In,
    /// The endpoint.
    Out,
}

/// What is left of a line.
#[derive(Copy, Clone, Debug)]
pub(super) struct Cursor<'a>(&'a str);

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self(text.trim())
    }

    pub(super) fn rest(&self) -> &'a str {
        self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn skip(&mut self, bytes: usize) {
        self.0 = self.0[bytes..].trim_start();
    }

    /// Passes over `text` and the blanks behind it, if it is next.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        let found = self.0.starts_with(text);
        if found {
            self.skip(text.len());
        }
        found
    }

    pub(super) fn expect(&mut self, text: &str, what: &str) -> Read<()> {
        if self.eat(text) { Ok(()) } else { Err(format!("`{text}` is missing {what}, before {}", self.shown())) }
    }

    /// Passes over `word` if it is next and a word of its own.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let mut ahead = *self;
        let found = ahead.word() == word;
        if found {
            *self = ahead;
        }
        found
    }

    /// The letters, digits, `_` and `.` that follow directly; may be empty.
    pub(super) fn word(&mut self) -> &'a str {
        self.take(|c| c.is_ascii_alphanumeric() || c == '_')
    }

    /// As much as consists of such characters; may be empty.
    pub(super) fn take(&mut self, of: impl Fn(char) -> bool) -> &'a str {
        let end = self.0.find(|c| !of(c)).unwrap_or(self.0.len());
        let (taken, _) = self.0.split_at(end);
        self.skip(end);
        taken
    }

    /// What stands before `end`, which is passed over.
    pub(super) fn until(&mut self, end: &str, what: &str) -> Read<&'a str> {
        let at = self.0.find(end).ok_or_else(|| format!("`{end}` is missing {what}"))?;
        let taken = self.0[..at].trim();
        self.skip(at + end.len());
        Ok(taken)
    }

    /// A number that fits, decimal or `0x`; `what` names it.
    pub(super) fn number<T: TryFrom<i128>>(&mut self, what: &str) -> Read<T> {
        let shown = self.shown();
        let negative = self.eat("-");
        let digits = self.word();
        let value = match digits.strip_prefix("0x") {
            Some(hex) => u128::from_str_radix(hex, 16).ok(),
            None => digits.parse::<u128>().ok(),
        };
        let value = value.and_then(|v| i128::try_from(v).ok()).map(|v| if negative { -v } else { v });
        value.and_then(|v| T::try_from(v).ok()).ok_or_else(|| format!("{what} is {shown}, which is no such number"))
    }

    /// The next word or sign, for a message.
    pub(super) fn shown(&self) -> String {
        let end = self.0.find(char::is_whitespace).unwrap_or(self.0.len()).min(24);
        let end = (0..=end).rev().find(|&at| self.0.is_char_boundary(at)).unwrap_or(0);
        if end == 0 { "the end of the line".to_owned() } else { format!("`{}`", &self.0[..end]) }
    }

    pub(super) fn finish(&self) -> Read<()> {
        if self.is_empty() { Ok(()) } else { Err(format!("{} is not understood here", self.shown())) }
    }
}
