//! What a class of problems means for IS, and the ranks that NPB publishes for it.

use crate::npb::Class;

/// Keys that are tested in each iteration.
pub(crate) const TESTS: usize = 5;

/// The sizes of a class, and its tests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameters {
    /// How many keys.
    pub(crate) keys: usize,
    /// How many values they can have.
    pub(crate) values: u32,
    /// Which keys are tested, and their ranks.
    tests: [(usize, u32); TESTS],
    /// How many of these ranks rise by one in each iteration, as a smaller key comes in; the others fall.
    rising: usize,
    /// After which iterations the rising ranks, and the falling ones, are those above.
    from: [u32; 2],
}

impl Parameters {
    /// Those of a class.
    pub(crate) fn of(class: Class) -> Self {
        match class {
            Class::S => Self {
                keys: 1 << 16,
                values: 1 << 11,
                tests: [(48_427, 0), (17_148, 18), (23_627, 346), (62_548, 64_917), (4_431, 65_463)],
                rising: 3,
                from: [0, 0],
            },
            Class::W => Self {
                keys: 1 << 20,
                values: 1 << 16,
                tests: [
                    (357_773, 1_249),
                    (934_767, 11_698),
                    (875_723, 1_039_987),
                    (898_999, 1_043_896),
                    (404_505, 1_048_018),
                ],
                rising: 2,
                from: [2, 0],
            },
            Class::A => Self {
                keys: 1 << 23,
                values: 1 << 19,
                tests: [
                    (2_112_377, 104),
                    (662_041, 17_523),
                    (5_336_171, 123_928),
                    (3_642_833, 8_288_932),
                    (4_250_760, 8_388_264),
                ],
                rising: 3,
                from: [1, 1],
            },
        }
    }

    /// Which keys change in an iteration of so many, and their new values.
    pub(crate) fn changes(&self, iteration: u32, iterations: u32) -> [(usize, u32); 2] {
        let due = [(iteration, iteration), (iteration + iterations, self.values - iteration)];
        due.map(|(at, key)| (at as usize, key))
    }

    /// How many values, as the length of an array.
    pub(crate) fn values(&self) -> usize {
        self.values as usize
    }

    /// Which keys are tested after an iteration, and their ranks then.
    pub(crate) fn tests(&self, iteration: u32) -> [(usize, u32); TESTS] {
        let mut tests = self.tests;
        let (rising, falling) = tests.split_at_mut(self.rising);
        rising.iter_mut().for_each(|(_, rank)| *rank = *rank + iteration - self.from[0]);
        falling.iter_mut().for_each(|(_, rank)| *rank = *rank + self.from[1] - iteration);
        tests
    }
}
