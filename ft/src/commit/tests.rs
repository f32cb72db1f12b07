use super::*;
use std::collections::HashSet;

const MARK: Mark = Mark { incarnation: Incarnation(3), epoch: Epoch(8) };

fn rank(holders: u8) -> Commit {
    Commit::new(Incarnation(3), Epoch(7), holders).unwrap()
}

fn outputs(commit: &mut Commit) -> Vec<Output> {
    std::iter::from_fn(|| commit.poll()).collect()
}

/// The outputs that follow an input.
fn after(commit: &mut Commit, input: Input) -> Vec<Output> {
    commit.take(input).unwrap();
    outputs(commit)
}

fn until_staged(commit: &mut Commit, holders: u8) {
    commit.take(Input::Stage).unwrap();
    (0..holders).for_each(|h| commit.take(Input::Copied(h)).unwrap());
    (0..holders).for_each(|h| commit.take(Input::Fenced(h)).unwrap());
    (0..holders).for_each(|h| commit.take(Input::Marked(h)).unwrap());
    assert_eq!(outputs(commit).last(), Some(&Output::Staged));
}

#[test]
fn a_rank_with_one_holder_writes_fences_marks_meets_and_runs_on() {
    let mut commit = rank(1);
    assert_eq!(after(&mut commit, Input::Stage), [Output::Write { holder: 0 }]);
    assert_eq!(after(&mut commit, Input::Copied(0)), [Output::Fence { holder: 0 }]);
    assert_eq!(after(&mut commit, Input::Fenced(0)), [Output::Mark { holder: 0, mark: MARK }]);
    assert_eq!(after(&mut commit, Input::Marked(0)), [Output::Staged]);
    let done = [Output::Free { epoch: Epoch(7) }, Output::Done];
    assert_eq!(after(&mut commit, Input::Met { committed: true }), done);
    assert_eq!((commit.committed(), commit.mark().epoch), (Epoch(8), Epoch(9)));
}

#[test]
fn a_rank_that_cannot_take_an_image_leaves_the_checkpoint_out() {
    let mut commit = rank(2);
    assert_eq!(after(&mut commit, Input::CannotStage), [Output::NotStaged]);
    assert!(commit.take(Input::Met { committed: true }).is_err(), "nobody commits what a rank left out");
    let done = [Output::Discard { epoch: Epoch(8) }, Output::Done];
    assert_eq!(after(&mut commit, Input::Met { committed: false }), done);
    assert_eq!(commit.committed(), Epoch(7));
}

#[test]
fn what_is_on_its_way_is_fenced_although_another_holder_has_no_room() {
    let mut commit = rank(3);
    after(&mut commit, Input::Stage);
    assert_eq!(after(&mut commit, Input::Copied(1)), [Output::Fence { holder: 1 }]);
    assert_eq!(after(&mut commit, Input::NoRoom(0)), []);
    assert_eq!(after(&mut commit, Input::Fenced(1)), []);
    assert_eq!(after(&mut commit, Input::NoRoom(2)), [Output::NotStaged]);
    let done = [Output::Discard { epoch: Epoch(8) }, Output::Done];
    assert_eq!(after(&mut commit, Input::Met { committed: false }), done);
}

#[test]
fn a_rank_clears_its_marks_before_it_runs_on_when_another_left_the_checkpoint_out() {
    let mut commit = rank(2);
    until_staged(&mut commit, 2);
    let clear = [Output::Clear { holder: 0, mark: MARK }, Output::Clear { holder: 1, mark: MARK }];
    assert_eq!(after(&mut commit, Input::Met { committed: false }), clear);
    assert_eq!(after(&mut commit, Input::Cleared(1)), []);
    let done = [Output::Discard { epoch: Epoch(8) }, Output::Done];
    assert_eq!(after(&mut commit, Input::Cleared(0)), done);
}

#[test]
fn a_rank_that_lost_a_holder_never_runs_on() {
    let mut commit = rank(2);
    after(&mut commit, Input::Stage);
    assert_eq!(after(&mut commit, Input::Failed(1)), [Output::Park]);
    for input in [Input::Copied(0), Input::Fenced(0), Input::Met { committed: true }, Input::Stage] {
        assert_eq!(after(&mut commit, input), []);
    }
    // What it was to do is left undone.
    let mut commit = rank(3);
    after(&mut commit, Input::Stage);
    commit.take(Input::Copied(0)).unwrap();
    assert_eq!(after(&mut commit, Input::Failed(1)), [Output::Park]);
}

#[test]
fn an_input_that_does_not_fit_changes_nothing() {
    let mut commit = rank(2);
    after(&mut commit, Input::Stage);
    let before = commit.clone();
    let wrong =
        [Input::Fenced(0), Input::Copied(2), Input::Copied(255), Input::Fenced(200), Input::Marked(0)];
    for input in wrong.into_iter().chain([Input::Stage, Input::Failed(2), Input::Met { committed: true }]) {
        assert!(commit.take(input).is_err(), "{input:?}");
        assert_eq!(commit, before);
    }
    let said = commit.take(Input::Marked(0)).unwrap_err().to_string();
    assert!(said.starts_with("a checkpoint cannot take Marked(0) while it is Writing"), "{said}");
}

#[test]
fn a_store_has_one_to_eight_holders() {
    assert!(Commit::new(Incarnation(0), Epoch(0), 0).is_none());
    assert!(Commit::new(Incarnation(0), Epoch(0), 9).is_none());
    let mut most = rank(MOST_HOLDERS);
    assert_eq!(after(&mut most, Input::Stage).len(), 8);
}

/// A rank and what it has asked for that was not answered yet, with what stands at its holders.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Walk {
    commit: Commit,
    asked: Vec<Output>,
    fenced: u8,
    marked: u8,
    staged: bool,
}

impl Walk {
    fn poll(&mut self, holders: u8) {
        for output in outputs(&mut self.commit) {
            let all = u32::from(holders);
            match output {
                Output::Mark { .. } => assert_eq!(self.fenced.count_ones(), all, "a mark beside late data"),
                Output::Staged => {
                    assert_eq!(self.marked.count_ones(), all, "staged before all marks are there");
                    self.staged = true;
                }
                Output::Free { .. } => assert!(self.staged),
                Output::Discard { .. } => assert_eq!(self.marked, 0, "a mark stays"),
                _ => {}
            }
            self.asked.push(output);
        }
        self.asked.sort();
    }

    /// All that may happen next.
    fn next(&self, holders: u8) -> Vec<Walk> {
        let mut all = Vec::new();
        for (at, output) in self.asked.iter().enumerate() {
            for input in answers(*output) {
                let mut walk = self.clone();
                walk.asked.remove(at);
                match input {
                    Input::Fenced(h) => walk.fenced |= 1 << h,
                    Input::Marked(h) => walk.marked |= 1 << h,
                    Input::Cleared(h) => walk.marked &= !(1 << h),
                    _ => {}
                }
                walk.commit.take(input).unwrap();
                walk.poll(holders);
                all.push(walk);
            }
        }
        all
    }
}

fn answers(output: Output) -> Vec<Input> {
    match output {
        Output::Write { holder } => vec![Input::Copied(holder), Input::NoRoom(holder)],
        Output::Fence { holder } => vec![Input::Fenced(holder)],
        Output::Mark { holder, .. } => vec![Input::Marked(holder)],
        Output::Clear { holder, .. } => vec![Input::Cleared(holder)],
        Output::Staged => vec![Input::Met { committed: true }, Input::Met { committed: false }],
        Output::NotStaged => vec![Input::Met { committed: false }],
        Output::Free { .. } | Output::Discard { .. } | Output::Done | Output::Park => vec![],
    }
}

#[test]
fn in_every_order_of_answers_marks_follow_fences_and_the_rank_ends_done() {
    for holders in 1..=4 {
        let mut commit = rank(holders);
        commit.take(Input::Stage).unwrap();
        let mut first = Walk { commit, asked: vec![], fenced: 0, marked: 0, staged: false };
        first.poll(holders);
        let (mut seen, mut todo) = (HashSet::from([first.clone()]), vec![first]);
        while let Some(walk) = todo.pop() {
            let next = walk.next(holders);
            assert!(!next.is_empty() || walk.asked.contains(&Output::Done), "a rank is stuck");
            todo.extend(next.into_iter().filter(|walk| seen.insert(walk.clone())));
        }
    }
}
