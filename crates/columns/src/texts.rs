//! The texts of a column as codes and literals, and back.
//!
//! The code of a text is 0, and then its bytes are stored, or one more than the number of its
//! pattern. Literals are in the order of pattern, place, text: so those of the same place are
//! neighbours, which resemble each other.

use std::collections::HashSet;
use std::ops::Range;

use twox_hash::XxHash3_64;

use crate::bytes::{Budget, Damage, Decoded};
use crate::keyed::{deltas, from_deltas};
use crate::learn::{LearnedTexts, Space, Style};
use crate::pattern::{Pattern, PlaceKind};
use crate::template::{Cut, Level, TEMPLATE_BYTES_MAX};

/// Where a text is in the content.
pub(crate) type Span = Range<u32>;

/// From as many numbers on, those of a place may be stored as differences.
const DELTA_FROM: usize = 8;

/// The literals of one pattern in a frame, and how many of its texts there are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LiteralGroup {
    pub(crate) count: u32,
    numbers_at: u32,
    hex_at: u32,
    quoted_at: u32,
}

/// The groups of all codes up to the highest one, in order, and how many literals they have.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub(crate) of_code: Vec<LiteralGroup>,
    pub(crate) numbers: usize,
    pub(crate) hex_bytes: usize,
    pub(crate) quoted: usize,
    /// Which text of its pattern each text is.
    nth: Vec<u32>,
}

impl Groups {
    /// The groups of these codes, which all have a pattern. Fails if they need more than the
    /// budget, before they take the memory.
    pub(crate) fn new(codes: &[u64], patterns: &[Pattern], budget: &mut Budget) -> Decoded<Self> {
        let highest = codes.iter().copied().max().unwrap_or(0) as usize;
        let mut groups =
            Self { of_code: vec![LiteralGroup::default(); highest + 1], ..Self::default() };
        groups.nth.reserve_exact(codes.len());
        for code in codes {
            let group = &mut groups.of_code[*code as usize];
            groups.nth.push(group.count);
            group.count += 1;
        }
        for (group, pattern) in groups.of_code[1..].iter_mut().zip(patterns) {
            let count = group.count as usize;
            let weight = pattern.weight().checked_mul(count);
            budget.spend(weight.ok_or(Damage("it has too much content"))?)?;
            group.numbers_at = groups.numbers as u32;
            group.hex_at = groups.hex_bytes as u32;
            group.quoted_at = groups.quoted as u32;
            groups.numbers += count * pattern.numbers as usize;
            groups.hex_bytes += count * pattern.hex_bytes as usize;
            groups.quoted += count * pattern.texts as usize;
        }
        Ok(groups)
    }

    /// Which text of its pattern a text is, and the group of that.
    pub(crate) fn of(&self, at: usize, code: u64) -> (usize, LiteralGroup) {
        (self.nth[at] as usize, self.of_code[code as usize])
    }

    /// The numbers of each place that has enough of them.
    fn runs(&self, patterns: &[Pattern]) -> Vec<Range<usize>> {
        let mut runs = Vec::new();
        for (group, pattern) in self.of_code[1..].iter().zip(patterns) {
            let (begin, count) = (group.numbers_at as usize, group.count as usize);
            if count >= DELTA_FROM {
                let run = |at: usize| begin + at * count..begin + (at + 1) * count;
                runs.extend((0..pattern.numbers as usize).map(run));
            }
        }
        runs
    }

    /// How many runs there are.
    pub(crate) fn run_count(&self, patterns: &[Pattern]) -> usize {
        let has = |group: &&LiteralGroup| group.count as usize >= DELTA_FROM;
        let groups = self.of_code[1..].iter().zip(patterns);
        groups.filter(|(group, _)| has(group)).map(|(_, it)| it.numbers as usize).sum()
    }
}

/// The place of a literal among those of its group.
#[derive(Default)]
pub(crate) struct Places {
    numbers: usize,
    hex: usize,
    quoted: usize,
}

impl Places {
    pub(crate) fn number(&mut self, group: LiteralGroup, nth: usize) -> usize {
        let at = group.numbers_at as usize + self.numbers * group.count as usize + nth;
        self.numbers += 1;
        at
    }

    pub(crate) fn quoted(&mut self, group: LiteralGroup, nth: usize) -> usize {
        let at = group.quoted_at as usize + self.quoted * group.count as usize + nth;
        self.quoted += 1;
        at
    }

    pub(crate) fn hex(&mut self, group: LiteralGroup, nth: usize, width: u8) -> Range<usize> {
        let bytes = usize::from(width.div_ceil(2));
        let begin = group.hex_at as usize + self.hex * group.count as usize + nth * bytes;
        self.hex += bytes;
        begin..begin + bytes
    }
}

/// The texts of a column in a frame, in parts.
#[derive(Default)]
pub(crate) struct TextParts {
    pub(crate) codes: Vec<u64>,
    /// Texts without a pattern.
    pub(crate) stored: Vec<Span>,
    /// For each run of numbers whether it has differences.
    pub(crate) is_delta: Vec<u8>,
    pub(crate) numbers: Vec<u64>,
    pub(crate) hex: Vec<u8>,
    pub(crate) quoted: Vec<Span>,
}

/// Cuts texts, and learns their patterns.
pub(crate) struct Cutter<'a> {
    pub(crate) content: &'a [u8],
    pub(crate) cut: &'a mut Cut,
}

impl Cutter<'_> {
    fn text(&self, span: &Span) -> &[u8] {
        &self.content[span.start as usize..span.end as usize]
    }

    /// Decides how texts are stored: as a whole if nearly all of them come again, in this frame or
    /// from an earlier one.
    pub(crate) fn decide_style(&self, texts: &[Span], learned: &mut LearnedTexts) {
        let mut here = HashSet::new();
        let mut is_known = |span: &&Span| {
            let text = self.text(span);
            let hash = XxHash3_64::oneshot(text);
            let is_new_here = here.insert(hash);
            !is_new_here || learned.looked_at.contains(&hash) || learned.index.find(text).is_some()
        };
        let known = texts.iter().filter(|span| is_known(span)).count();
        // If some are not, cutting them saves more than whole texts do.
        let is_whole = 8 * known >= 7 * texts.len();
        learned.style = if is_whole { Style::Whole } else { Style::Cut };
        learned.looked_at = here;
    }

    pub(crate) fn parts(
        &mut self,
        texts: &[Span],
        learned: &mut LearnedTexts,
        patterns: &mut Vec<Pattern>,
        space: &mut Space,
        level: Level,
    ) -> Decoded<TextParts> {
        if learned.style == Style::Whole {
            return Ok(self.whole(texts, learned, patterns, space));
        }
        let mut parts = TextParts::default();
        // The literals of the texts one after the other.
        let (mut numbers, mut hex, mut quoted) = (Vec::new(), Vec::new(), Vec::new());
        for span in texts {
            let text = &self.content[span.start as usize..span.end as usize];
            let pattern = match self.cut.cut(text, level) {
                true => learned.learn(&self.cut.template, patterns, space),
                false => None,
            };
            parts.codes.push(pattern.map_or(0, |number| u64::from(number) + 1));
            if pattern.is_none() {
                parts.stored.push(span.clone());
                continue;
            }
            numbers.extend_from_slice(&self.cut.numbers);
            hex.extend_from_slice(&self.cut.hex);
            let of_content = |it: &Span| span.start + it.start..span.start + it.end;
            quoted.extend(self.cut.texts.iter().map(of_content));
        }
        let groups = Groups::new(&parts.codes, patterns, &mut Budget::new(usize::MAX))?;
        parts.sort(&groups, patterns, (&numbers, &hex, &quoted));
        parts.choose_deltas(&groups, patterns);
        Ok(parts)
    }

    fn whole(
        &mut self,
        texts: &[Span],
        learned: &mut LearnedTexts,
        patterns: &mut Vec<Pattern>,
        space: &mut Space,
    ) -> TextParts {
        let mut parts = TextParts::default();
        for span in texts {
            let text = &self.content[span.start as usize..span.end as usize];
            let pattern = match text.len() <= TEMPLATE_BYTES_MAX {
                true => learned.learn(text, patterns, space),
                false => None,
            };
            parts.codes.push(pattern.map_or(0, |number| u64::from(number) + 1));
            if pattern.is_none() {
                parts.stored.push(span.clone());
            }
        }
        // Without places. A template that is met again may be among them, but only for a text that
        // is the template.
        parts
    }
}

impl TextParts {
    /// Brings literals into the order of their groups.
    fn sort(
        &mut self,
        groups: &Groups,
        patterns: &[Pattern],
        (numbers, hex, quoted): (&[u64], &[u8], &[Span]),
    ) {
        self.numbers.resize(groups.numbers, 0);
        self.hex.resize(groups.hex_bytes, 0);
        self.quoted.resize(groups.quoted, 0..0);
        let (mut number_at, mut hex_at, mut quoted_at) = (0, 0, 0);
        for (at, code) in self.codes.iter().enumerate() {
            let Some(pattern) = code.checked_sub(1) else { continue };
            let (nth, group) = groups.of(at, *code);
            let mut places = Places::default();
            for place in &patterns[pattern as usize].places {
                if place.kind == PlaceKind::Text {
                    self.quoted[places.quoted(group, nth)] = quoted[quoted_at].clone();
                    quoted_at += 1;
                } else if place.kind.is_number() {
                    self.numbers[places.number(group, nth)] = numbers[number_at];
                    number_at += 1;
                } else {
                    let to = places.hex(group, nth, place.width);
                    let end = hex_at + to.len();
                    self.hex[to].copy_from_slice(&hex[hex_at..end]);
                    hex_at = end;
                }
            }
        }
    }

    /// Replaces the numbers of a place by their differences if these are smaller.
    fn choose_deltas(&mut self, groups: &Groups, patterns: &[Pattern]) {
        let bits = |value: u64| value.checked_ilog2().map_or(0, |bits| bits + 1);
        for run in groups.runs(patterns) {
            let values = &mut self.numbers[run];
            let plain: u32 = values.iter().map(|value| bits(*value)).sum();
            let differences: u32 = deltas(values).map(bits).sum();
            let is_delta = differences < plain;
            self.is_delta.push(u8::from(is_delta));
            if is_delta {
                let differences: Vec<u64> = deltas(values).collect();
                values.copy_from_slice(&differences);
            }
        }
    }
}

/// Undoes [`TextParts::choose_deltas`].
pub(crate) fn undo_deltas(
    numbers: &mut [u64],
    is_delta: &[u8],
    groups: &Groups,
    patterns: &[Pattern],
) {
    for (run, is_delta) in groups.runs(patterns).into_iter().zip(is_delta) {
        if *is_delta != 0 {
            from_deltas(&mut numbers[run]);
        }
    }
}
