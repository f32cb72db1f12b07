//! What ranks say of themselves when one has waited for long.
//!
//! | message | from → to | carries |
//! |---|---|---|
//! | [`Query`](StallMessage::Query) | who waits → all others | – |
//! | [`Answer`](StallMessage::Answer) | each of them → who asked | what its threads have and wait for |
//!
//! Outside of the protocol's order: they may arrive at any time, and nobody waits for them.

use super::{Malformed, Purpose, Reader, Why, Writer, list};

/// What a thread does with an object of synchronisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relation {
    /// It has it, and has to give it back.
    Holds,
    /// It waits for it.
    Awaits,
}

/// What one thread of a rank does with one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Activity {
    /// The thread, by a number within its rank.
    pub who: u64,
    /// What it does.
    pub relation: Relation,
    /// With which object.
    pub object: u32,
}

/// What a rank does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activities {
    /// The collective call that it is in.
    pub meets: Option<Purpose>,
    /// What its threads have and wait for.
    pub threads: Vec<Activity>,
}

/// A message of a rank that waits, or an answer to one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StallMessage {
    /// What do you do?
    Query,
    /// This.
    Answer(Activities),
}

impl StallMessage {
    /// The message's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut w = Writer::new(&mut out);
        let StallMessage::Answer(activities) = self else {
            w.u8(0);
            return out;
        };
        w.u8(if activities.meets.is_some() { 2 } else { 1 });
        activities.meets.iter().flat_map(|purpose| purpose.0).for_each(|number| w.varint(number));
        w.varint(activities.threads.len() as u64);
        for activity in &activities.threads {
            w.varint(activity.who);
            w.u8(u8::from(activity.relation == Relation::Awaits));
            w.varint(u64::from(activity.object));
        }
        out
    }

    /// Reads a message.
    ///
    /// # Errors
    /// It is cut short, too long, or says something that does not exist.
    pub fn decode(bytes: &[u8]) -> Result<StallMessage, Malformed> {
        let mut r = Reader::new(bytes);
        let meets = match r.u8()? {
            0 => {
                r.finish()?;
                return Ok(StallMessage::Query);
            }
            1 => None,
            2 => Some(Purpose([r.varint()?, r.varint()?, r.varint()?, r.varint()?])),
            tag => return Err(Malformed { at: 0, why: Why::UnknownTag { tag } }),
        };
        let threads = list(&mut r, 3, |r| {
            let who = r.varint()?;
            let relation = if r.u8()? == 0 { Relation::Holds } else { Relation::Awaits };
            Ok(Activity { who, relation, object: r.varint_u32()? })
        })?;
        r.finish()?;
        Ok(StallMessage::Answer(Activities { meets, threads }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn activities() -> impl Strategy<Value = Activities> {
        let relation = prop_oneof![Just(Relation::Holds), Just(Relation::Awaits)];
        let activity = (any::<u64>(), relation, any::<u32>()).prop_map(|(who, relation, object)| Activity {
            who,
            relation,
            object,
        });
        let meets = proptest::option::of(any::<[u64; 4]>().prop_map(Purpose));
        (meets, proptest::collection::vec(activity, 0..9))
            .prop_map(|(meets, threads)| Activities { meets, threads })
    }

    proptest! {
        #[test]
        fn a_message_is_read_as_it_was_written(activities in activities()) {
            let message = StallMessage::Answer(activities);
            prop_assert_eq!(StallMessage::decode(&message.encode()), Ok(message));
        }

        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = StallMessage::decode(&bytes);
        }
    }

    #[test]
    fn a_query_is_one_byte() {
        assert_eq!(StallMessage::Query.encode(), [0]);
        assert_eq!(StallMessage::decode(&[0]), Ok(StallMessage::Query));
        assert!(StallMessage::decode(&[0, 0]).is_err() && StallMessage::decode(&[]).is_err());
    }
}
