//! Alternating rounds: who is measured when, and what was found.

use anyhow::{Result, bail};

/// Failures in a row after which there is no use in going on.
const HOPELESS: u32 = 3;

/// One short run: a contender, at a cell, in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// From 0.
    pub round: usize,
    /// Index of what is measured.
    pub cell: usize,
    /// Index of who is measured.
    pub contender: usize,
}

/// All slots: round after round, cell after cell, and the contenders of a cell one right after the
/// other. Each begins as often as any other, so that what the first run of a pair suffers or gains
/// falls on all alike.
pub fn slots(rounds: usize, cells: usize, contenders: usize) -> impl Iterator<Item = Slot> {
    (0..rounds).flat_map(move |round| {
        (0..cells).flat_map(move |cell| {
            (0..contenders).map(move |turn| Slot {
                round,
                cell,
                contender: (turn + round + cell) % contenders,
            })
        })
    })
}

/// What was found: a figure by cell, contender and round, absent where the run failed.
#[derive(Debug)]
pub struct Figures {
    by_cell: Vec<Vec<Vec<Option<f64>>>>,
    /// What went wrong, in words.
    pub failures: Vec<String>,
}

impl Figures {
    /// A contender's figures at a cell, by round.
    pub fn of(&self, cell: usize, contender: usize) -> &[Option<f64>] {
        self.by_cell.get(cell).and_then(|cell| cell.get(contender)).map_or(&[], Vec::as_slice)
    }
}

/// Measures every slot, and tells each figure on standard error: what a median hides, a reader may
/// want to see.
///
/// # Errors
/// The same contender failed time after time: the last reason.
pub fn measure(
    rounds: usize,
    cells: &[String],
    contenders: &[&str],
    run: impl FnMut(Slot) -> Result<f64>,
) -> Result<Figures> {
    measure_those(rounds, cells, contenders, |_| true, run)
}

/// As [`measure`], where not every contender can be measured at every cell: those slots that `has`
/// says so.
///
/// # Errors
/// As [`measure`].
pub fn measure_those(
    rounds: usize,
    cells: &[String],
    contenders: &[&str],
    has: impl Fn(Slot) -> bool,
    mut run: impl FnMut(Slot) -> Result<f64>,
) -> Result<Figures> {
    let mut by_cell = vec![vec![vec![None; rounds]; contenders.len()]; cells.len()];
    let mut failures = Vec::new();
    let mut in_a_row = vec![0; contenders.len()];
    for slot in slots(rounds, cells.len(), contenders.len()).filter(|&slot| has(slot)) {
        let Slot { round, cell, contender } = slot;
        let what = format!("round {}, {}, {}", round + 1, cells[cell], contenders[contender]);
        match run(slot) {
            Ok(figure) => {
                eprintln!("{what}: {figure:.2}");
                by_cell[cell][contender][round] = Some(figure);
                in_a_row[contender] = 0;
            }
            Err(error) => {
                in_a_row[contender] += 1;
                if in_a_row[contender] == HOPELESS {
                    bail!("{} failed {HOPELESS} times in a row: {error:#}", contenders[contender]);
                }
                let failure = format!("{what}: {error:#}");
                eprintln!("{failure}");
                failures.push(failure);
            }
        }
    }
    Ok(Figures { by_cell, failures })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|cell| format!("cell {cell}")).collect()
    }

    #[test]
    fn every_contender_once_a_cell_and_round_and_first_as_often_as_any() {
        for contenders in [2, 4] {
            let all: Vec<Slot> = slots(4, 3, contenders).collect();
            assert_eq!(all.len(), 12 * contenders);
            let mut first = vec![0; contenders];
            for group in all.chunks(contenders) {
                assert!(
                    group
                        .iter()
                        .all(|slot| (slot.round, slot.cell) == (group[0].round, group[0].cell))
                );
                let mut who: Vec<usize> = group.iter().map(|slot| slot.contender).collect();
                first[who[0]] += 1;
                who.sort_unstable();
                assert_eq!(who, (0..contenders).collect::<Vec<_>>());
            }
            assert!(first.iter().all(|&count| count == 12 / contenders), "{first:?}");
        }
    }

    #[test]
    fn figures_land_where_they_belong_and_failures_leave_a_gap() {
        let figures = measure(3, &names(2), &["ours", "theirs"], |slot| match slot {
            Slot { round: 1, cell: 1, contender: 0 } => Err(anyhow!("cut off")),
            slot => Ok((100 * slot.cell + 10 * slot.contender + slot.round) as f64),
        })
        .unwrap();
        assert_eq!(figures.of(0, 1), [Some(10.0), Some(11.0), Some(12.0)]);
        assert_eq!(figures.of(1, 0), [Some(100.0), None, Some(102.0)]);
        assert_eq!(figures.failures, ["round 2, cell 1, ours: cut off"]);
        assert!(figures.of(2, 0).is_empty());
    }

    #[test]
    fn who_cannot_be_measured_at_a_cell_is_left_out() {
        let has = |slot: Slot| slot.cell == 0 || slot.contender == 1;
        let figures = measure_those(2, &names(2), &["ours", "theirs"], has, |slot| {
            match (slot.cell, slot.contender) {
                (1, 0) => Err(anyhow!("not to be run")),
                _ => Ok(1.0),
            }
        })
        .unwrap();
        assert!(figures.failures.is_empty());
        assert_eq!((figures.of(1, 0), figures.of(1, 1)), (&[None; 2][..], &[Some(1.0); 2][..]));
    }

    #[test]
    fn a_tool_that_only_fails_ends_it() {
        let mut runs = 0;
        let error = measure(100, &names(10), &["ours", "theirs"], |slot| {
            runs += 1;
            if slot.contender == 1 { Err(anyhow!("no device")) } else { Ok(1.0) }
        })
        .unwrap_err();
        assert_eq!(error.to_string(), "theirs failed 3 times in a row: no device");
        assert!(runs <= 6, "{runs}");
        let every_other = measure(10, &names(1), &["ours", "theirs"], |slot| match slot {
            Slot { contender: 1, round, .. } if round % 2 == 0 => Err(anyhow!("lost")),
            _ => Ok(1.0),
        });
        assert_eq!(every_other.unwrap().failures.len(), 5);
    }
}
