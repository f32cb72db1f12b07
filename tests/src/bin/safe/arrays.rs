//! Arrays whose elements have owners.

use super::{LEN, panics, value};
use scash::{Division, Dsm, Error, Matrix, Result, Session, Split};

/// The element of a plate after so many steps, computed without sharing.
fn plate(rows: usize, columns: usize, steps: usize) -> Vec<f64> {
    let mut old: Vec<f64> = (0..rows * columns).map(start).collect();
    for _ in 0..steps {
        let at = |i: usize, j: usize| old[i * columns + j];
        let mut new = old.clone();
        for (i, j) in (1..rows - 1).flat_map(|i| (1..columns - 1).map(move |j| (i, j))) {
            new[i * columns + j] = 0.25 * (at(i - 1, j) + at(i + 1, j) + at(i, j - 1) + at(i, j + 1));
        }
        old = new;
    }
    old
}

fn start(at: usize) -> f64 {
    (at * at % 97) as f64
}

/// The same, by sessions that own parts.
fn relax(session: &mut impl Session, mut plate: Matrix<f64>, steps: usize) -> Result<Vec<f64>> {
    let (rows, columns) = (plate.rows(), plate.columns());
    for step in 0..=steps {
        let parts = plate.parts(session);
        assert_eq!(parts.mine.numbers().len(), parts.mine.len());
        for (i, mine) in parts.mine {
            for (j, x) in parts.columns.clone().zip(mine) {
                let row = |i| parts.present.row(i);
                let edge = i == 0 || j == 0 || i + 1 == rows || j + 1 == columns;
                *x = match step {
                    0 => start(i * columns + j),
                    _ if edge => row(i)[j],
                    _ => 0.25 * (row(i - 1)[j] + row(i + 1)[j] + row(i)[j - 1] + row(i)[j + 1]),
                };
            }
        }
        plate.publish(session)?;
    }
    let all = plate.present(session).all().to_vec();
    plate.free(session)?;
    Ok(all)
}

/// By rows and in blocks, of ranks and of workers: a stencil has the bits of the sequential one.
pub(crate) fn matrices_show_what_was_published(dsm: &mut Dsm) -> Result<()> {
    for (rows, columns) in [(1, 1), (40, 70), (9, 1000)] {
        let expected = plate(rows.max(3), columns.max(3), 5);
        let expected = if rows < 3 { vec![start(0)] } else { expected };
        let matrix = dsm.matrix(rows, columns)?;
        assert_eq!(relax(dsm, matrix, 5)?, expected);
        let matrix = dsm.matrix_in_blocks(rows, columns)?;
        assert_eq!(relax(dsm, matrix, 5)?, expected);
        for threads in [2, 3] {
            let all = dsm.crew(threads, |worker| -> Result<_> {
                let matrix = worker.matrix(rows, columns)?;
                let by_rows = relax(worker, matrix, 5)?;
                let matrix = worker.matrix_in_blocks(rows, columns)?;
                Ok([by_rows, relax(worker, matrix, 5)?])
            })?;
            assert!(all.iter().flatten().all(|all| *all == expected));
        }
    }
    let mut matrix = dsm.matrix::<u64>(30, 20)?;
    let (own, _) = matrix.block();
    let mine = matrix.parts(dsm).mine.into_slice().expect("whole rows");
    assert_eq!(mine.len(), own.len() * 20);
    mine.fill(3);
    matrix.publish(dsm)?;
    assert!(matrix.present(dsm).all().iter().all(|&x| x == 3));
    matrix.free(dsm)
}

/// Everybody writes its own, then all read; two arrays change hands at one barrier.
fn alternate(session: &mut impl Session) -> Result<()> {
    let owners = session.count();
    let (own, read) = (Division::even(LEN, owners), Division::read_by_all(LEN, owners));
    let mut arrays: [Split<u64>; 2] = [session.split(&own)?, session.split(&read)?];
    for interval in 1..=6 {
        let [written, shown] = &mut arrays;
        let first = own.of(session.index())[0].start;
        written.mine(session).iter_mut().zip(first..).for_each(|(x, i)| *x = value(interval, i));
        assert!(shown.view(session).mine.is_empty());
        let before = shown.get(session, 0..LEN);
        assert!((0..LEN).all(|i| before[i] == if interval == 1 { 0 } else { value(interval - 1, i) }));
        session.turn([written.to(&read), shown.to(&own)])?;
        arrays.reverse();
    }
    arrays.into_iter().try_for_each(|array| array.free(session))
}

/// By ranks and by workers.
pub(crate) fn owners_change_at_turns(dsm: &mut Dsm) -> Result<()> {
    alternate(dsm)?;
    for threads in [1, 3] {
        dsm.crew(threads, |worker| alternate(worker))?;
    }
    Ok(())
}

/// Sorts by the remainder of a division, as a radix sort's pass does: each session counts its values, and
/// from all counts every session knows where its own go.
fn scatter(session: &mut impl Session) -> Result<()> {
    const DIGITS: usize = 7;
    let (index, owners) = (session.index(), session.count());
    let own = Division::even(LEN, owners);
    let rows = Division::rows(owners, DIGITS, owners);
    let read = [Division::read_by_all(LEN, owners), Division::read_by_all(owners * DIGITS, owners)];
    let mut from: Split<u64> = session.split(&own)?;
    let mut to: Split<u64> = session.split(&read[0])?;
    let mut counts: Split<usize> = session.split(&rows)?;
    let part = own.of(index)[0].clone();
    from.mine(session).iter_mut().zip(part.clone()).for_each(|(x, i)| *x = (i * i) as u64);
    let digit = |x: u64| usize::try_from(x % DIGITS as u64).expect("a digit");
    let mine = counts.mine(session);
    from.get(session, part.clone()).iter().for_each(|&x| mine[digit(x)] += 1);
    session.turn([counts.to(&read[1]), from.to(&read[0])])?;
    let all = counts.get(session, 0..owners * DIGITS);
    let mut next = 0;
    let mut runs = vec![Vec::new(); owners];
    for digit in 0..DIGITS {
        for (owner, runs) in runs.iter_mut().enumerate() {
            runs.push(next..next + all[owner * DIGITS + digit]);
            next += all[owner * DIGITS + digit];
        }
    }
    let runs = Division::new(LEN, owners, |owner| runs[owner].clone())?;
    session.turn([to.to(&runs)])?;
    let mut mine: Vec<_> = to.view(session).mine.into_iter().map(|run| run.iter_mut()).collect();
    for &x in from.get(session, part) {
        *mine[digit(x)].next().expect("a place for each that was counted") = x;
    }
    session.turn([to.to(&read[0])])?;
    let mut sorted: Vec<u64> = (0..LEN).map(|i| (i * i) as u64).collect();
    sorted.sort_by_key(|&x| digit(x));
    assert_eq!(to.get(session, 0..LEN), sorted);
    counts.free(session)?;
    from.free(session)?;
    to.free(session)
}

/// Runs that depend on the data have owners for one interval.
pub(crate) fn any_ranges_have_owners(dsm: &mut Dsm) -> Result<()> {
    scatter(dsm)?;
    dsm.crew(2, |worker| scatter(worker)).map(drop)
}

/// Each session names its ranges; all are told of two that overlap.
fn name_ranges(session: &mut impl Session) -> Result<()> {
    let (index, owners) = (session.index(), session.count());
    let every = |index: usize| (index..LEN).step_by(owners).map(|at| at..at + 1);
    let division = session.divide(LEN, &every(index).collect::<Vec<_>>())?;
    assert!((0..LEN).all(|i| division.owner(i) == Some(i % owners)));
    let mut array: Split<u32> = session.split(&division)?;
    let mine = array.view(session).mine;
    assert_eq!(mine.len(), every(index).count());
    mine.into_iter().flatten().for_each(|x| *x = 1 + u32::try_from(index).expect("few sessions"));
    session.turn([array.to(&Division::read_by_all(LEN, owners))])?;
    let all = array.get(session, 0..LEN);
    assert!((0..LEN).all(|i| all[i] as usize == 1 + i % owners));
    array.free(session)?;
    // The last one names an element of the first one's, too.
    let last = index + 1 == owners && owners > 1;
    let mine = [10 * index..10 * index + 10, if last { 5..6 } else { LEN..LEN }];
    let told = session.divide(LEN, &mine);
    if owners == 1 {
        return told.map(drop);
    }
    let told = told.expect_err("two name element 5").to_string();
    assert!(told.contains("elements 0..10") && told.contains("elements 5..6"), "{told}");
    assert!(told.contains("rank 0") && told.contains("both would own 5..6"), "{told}");
    let told = session
        .divide(9, std::slice::from_ref(&(index..index + 10)))
        .expect_err("no such elements")
        .to_string();
    assert!(told.contains("rank 0 names elements 0..10 of an array of 9"), "{told}");
    Ok(())
}

pub(crate) fn ranges_are_named_by_each(dsm: &mut Dsm) -> Result<()> {
    name_ranges(dsm)?;
    dsm.crew(2, |worker| name_ranges(worker)).map(drop)
}

/// What others own is not to be read, and a handle that a thread has kept from a turn is of no use.
pub(crate) fn handles_that_missed_a_turn_lead_nowhere(dsm: &mut Dsm) -> Result<()> {
    let mut handles =
        dsm.crew(2, |worker| -> Result<_> { worker.split::<u64>(&Division::even(LEN, worker.count())) })?;
    let (mut second, mut first) = (handles.pop().expect("two"), handles.pop().expect("two"));
    let owners = 2 * dsm.size();
    assert!(panics(|| first.get(dsm, 0..LEN).len()).contains("owns"), "the whole is not the first one's");
    let read = Division::read_by_all(LEN, owners);
    for (wrong, words) in [
        (Division::read_by_all(LEN, owners + 1), "sessions"),
        (Division::read_by_all(LEN + 1, owners), "the array has"),
    ] {
        let told = dsm.turn([first.to(&wrong)]).expect_err("it does not fit").to_string();
        assert!(told.contains(words), "{told}");
    }
    let told = dsm.turn([first.to(&read), second.to(&read)]).expect_err("one array").to_string();
    assert!(told.contains("at once"), "{told}");
    assert!(dsm.turn([]).expect_err("no array").to_string().contains("no array"));
    assert_eq!(second.mine(dsm).len(), second.division().of(2 * dsm.rank() + 1)[0].len());
    dsm.turn([first.to(&read)])?;
    assert_eq!(first.get(dsm, 0..LEN).len(), LEN);
    assert!(panics(|| second.mine(dsm).len()).contains("missed a turn"));
    let told = dsm.turn([second.to(&read)]).expect_err("stale").to_string();
    assert!(told.contains("missed a turn"), "{told}");
    first.free(dsm)?;
    assert!(panics(|| second.get(dsm, 0..1).len()).contains("was freed"));
    assert!(second.free(dsm).expect_err("gone").to_string().contains("was freed"));
    let told = dsm.split::<u64>(&Division::even(LEN, dsm.size() + 1)).expect_err("too many");
    assert!(matches!(told, Error::Argument(_)), "{told}");
    Ok(())
}
