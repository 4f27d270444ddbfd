//! Pieces that lie side by side become one request.

/// Consecutive pieces of a list that lie side by side on one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<S> {
    /// The first of them.
    pub first: usize,
    /// The first one behind them.
    pub end: usize,
    /// Byte offset of the first.
    pub offset: u64,
    /// What they are on.
    pub source: S,
}

impl<S> Run<S> {
    /// Number of pieces, at least one.
    pub fn pieces(&self) -> usize {
        self.end - self.first
    }
}

/// The runs of a list of pieces of `size` bytes each, every one given by its source and its byte offset
/// there; `None` for one that is on none, which ends the run before it.
pub fn runs<S: Copy + PartialEq>(
    pieces: impl IntoIterator<Item = Option<(S, u64)>>,
    size: u64,
) -> Vec<Run<S>> {
    let mut runs: Vec<Run<S>> = Vec::new();
    for (index, piece) in pieces.into_iter().enumerate() {
        let Some((source, offset)) = piece else { continue };
        if let Some(run) = runs.last_mut() {
            let next =
                (run.pieces() as u64).checked_mul(size).and_then(|bytes| run.offset.checked_add(bytes));
            if run.end == index && run.source == source && next == Some(offset) {
                run.end += 1;
                continue;
            }
        }
        runs.push(Run { first: index, end: index + 1, offset, source });
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_where_a_piece_lies_elsewhere_or_nowhere() {
        let pieces = [
            Some(('a', 0)),
            Some(('a', 10)),
            Some(('a', 30)),
            Some(('b', 40)),
            Some(('b', 50)),
            None,
            Some(('b', 60)),
            Some(('b', 50)),
        ];
        let found: Vec<_> =
            runs(pieces, 10).iter().map(|run| (run.first..run.end, run.offset, run.source)).collect();
        let expected = [(0..2, 0, 'a'), (2..3, 30, 'a'), (3..5, 40, 'b'), (6..7, 60, 'b'), (7..8, 50, 'b')];
        assert_eq!(found, expected);
        assert_eq!(runs([None::<((), u64)>; 3], 10), []);
    }

    /// The piece behind the last offset that there is would lie at a small one.
    #[test]
    fn offsets_at_the_end_of_all_numbers_do_not_overflow() {
        let last = u64::MAX - 5;
        assert_eq!(runs([Some(((), last)), Some(((), 4))], 10).len(), 2);
    }
}
