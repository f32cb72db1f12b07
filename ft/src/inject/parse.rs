//! Reads injections.

use super::hosts::MOMENTS;
use super::point::POINTS;
use super::{AnyInjection, HostAction, HostInjection, HostTrigger, InjectedAction, Injection, Point, When};
use crate::{Incarnation, time};
use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

/// A text that is no injection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidInjection {
    text: String,
    /// The word where it went wrong; none at the end.
    at: Option<String>,
    expected: String,
}

impl fmt::Display for InvalidInjection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}': expected {}", self.text, self.expected)?;
        match &self.at {
            Some(word) => write!(f, ", not '{word}'"),
            None => f.write_str(" at the end"),
        }
    }
}

impl std::error::Error for InvalidInjection {}

/// Reads one injection of ranks, such as `kill rank 2 at barrier 17 after flush`.
pub fn parse(text: &str) -> Result<Injection, InvalidInjection> {
    read(text, |reader| reader.injection())
}

/// Reads one injection of ranks or of hosts, such as `kill host b at checkpoint 3`.
pub fn parse_any(text: &str) -> Result<AnyInjection, InvalidInjection> {
    let mut words = text.split_whitespace();
    match (words.next(), words.next()) {
        (Some("cut" | "return"), _) | (_, Some("host" | "agent" | "launcher")) => {
            read(text, |reader| reader.host_injection()).map(AnyInjection::Host)
        }
        _ => parse(text).map(AnyInjection::Rank),
    }
}

fn read<T>(text: &str, what: impl FnOnce(&mut Reader<'_>) -> Read<T>) -> Result<T, InvalidInjection> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut reader = Reader { words: &words };
    let read = what(&mut reader).and_then(|read| match reader.words {
        [] => Ok(read),
        _ => Err("the end".to_owned()),
    });
    read.map_err(|expected| InvalidInjection {
        text: words.join(" "),
        at: reader.words.first().map(|word| (*word).to_owned()),
        expected,
    })
}

/// Reads several injections with semicolons between them. An empty text has none.
pub fn parse_list(text: &str) -> Result<Vec<Injection>, InvalidInjection> {
    let texts = text.split(';').filter(|text| !text.trim().is_empty());
    texts.map(parse).collect()
}

/// The words that are left. An error says what was expected in the place of the first.
struct Reader<'a> {
    words: &'a [&'a str],
}

type Read<T> = Result<T, String>;

impl<'a> Reader<'a> {
    fn injection(&mut self) -> Read<Injection> {
        let verb = self.one_of(&["kill", "stop", "delay"])?;
        let rank = self.who()?;
        let act = match verb {
            "kill" => InjectedAction::Kill,
            "stop" => InjectedAction::Stop(self.time("for")?),
            _ => InjectedAction::Delay(self.time("by")?),
        };
        self.one_of(&["at"])?;
        let (point, number) = self.point()?;
        let when = self.when(number)?;
        let incarnation = self.incarnation(point, when)?;
        Ok(Injection { act, rank, point, when, incarnation })
    }

    fn host_injection(&mut self) -> Read<HostInjection> {
        let verb = self.one_of(&["kill", "stop", "cut", "return"])?;
        let things = match verb {
            "kill" => &["host", "agent", "launcher"][..],
            "cut" => &["host", "link"],
            _ => &["host"],
        };
        let act = match (verb, self.one_of(things)?) {
            (_, "launcher") => HostAction::KillLauncher,
            (_, "link") => HostAction::CutLink(self.name()?),
            (_, "agent") => HostAction::KillAgent(self.name()?),
            ("kill", _) => HostAction::KillHost(self.name()?),
            ("cut", _) => HostAction::CutHost(self.name()?),
            ("stop", _) => HostAction::StopHost(self.name()?, self.time("for")?),
            _ => HostAction::ReturnHost(self.name()?),
        };
        let when = if self.words.first() == Some(&"after") {
            HostTrigger::After(self.time("after")?)
        } else {
            self.one_of(&["at"]).map_err(|_| "'at' or 'after'".to_owned())?;
            match self.one_of(&["checkpoint", "recovery"])? {
                "checkpoint" => HostTrigger::Checkpoint(self.positive()?.get()),
                _ => self.recovery()?,
            }
        };
        Ok(HostInjection { act, when })
    }

    /// A moment of a recovery, and which time it is meant.
    fn recovery(&mut self) -> Read<HostTrigger> {
        let number = if self.has_number() { self.positive()?.get() } else { 1 };
        let moment = match self.words.first() {
            Some(&"after") => {
                self.words = &self.words[1..];
                self.one_of(&MOMENTS.map(|(_, name)| name))?
            }
            _ => MOMENTS[0].1,
        };
        let moment = MOMENTS.iter().find(|(_, name)| *name == moment);
        moment.map(|(moment, _)| HostTrigger::Recovery(number, *moment)).ok_or_else(|| "a moment".to_owned())
    }

    fn has_number(&self) -> bool {
        self.words.first().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()))
    }

    fn positive(&mut self) -> Read<NonZeroU64> {
        self.number("a number from 1 on")
    }

    /// The name of a host, whatever it is, or two with a hyphen between them.
    fn name(&mut self) -> Read<String> {
        let (name, rest) = self.words.split_first().ok_or("the name of a host")?;
        self.words = rest;
        Ok((*name).to_owned())
    }

    fn who(&mut self) -> Read<Option<u32>> {
        if self.one_of(&["rank", "all"])? == "all" {
            return self.one_of(&["ranks"]).map(|_| None);
        }
        self.number("the number of a rank").map(Some)
    }

    fn time(&mut self, before: &str) -> Read<std::time::Duration> {
        self.one_of(&[before])?;
        let word = self.words.first().copied().unwrap_or_default();
        let time = time::parse(word).map_err(|_| "a time such as 50ms or 2s".to_owned())?;
        self.words = &self.words[1..];
        Ok(time)
    }

    /// The point, and which time it is passed.
    fn point(&mut self) -> Read<(Point, Option<NonZeroU64>)> {
        let mut whats: Vec<&str> = POINTS.iter().map(|(_, what, _)| *what).collect();
        whats.dedup();
        let named = self.one_of(&whats)?;
        let number = if self.has_number() { Some(self.positive()?) } else { None };
        let moments: Vec<&str> =
            POINTS.iter().filter(|(_, what, _)| *what == named).map(|(.., moment)| *moment).collect();
        let moment = match self.words.first() {
            Some(&"after") => {
                self.words = &self.words[1..];
                self.one_of(&moments)?
            }
            _ => moments[0],
        };
        let point = POINTS.iter().find(|(_, what, of)| *what == named && *of == moment);
        point.map(|(point, ..)| (*point, number)).ok_or_else(|| "a point".to_owned())
    }

    fn when(&mut self, number: Option<NonZeroU64>) -> Read<When> {
        match (self.words.first(), number) {
            (Some(&"with"), Some(_)) => {
                Err("no probability beside a number: that time is certain, and the only one".to_owned())
            }
            (Some(&"with"), None) => self.randomly(),
            (_, number) => Ok(number.map_or(When::FIRST, When::Time)),
        }
    }

    fn randomly(&mut self) -> Read<When> {
        self.one_of(&["with"])?;
        self.one_of(&["probability"])?;
        let expected = "a probability above 0, at most 1";
        let word = self.words.first().copied().unwrap_or_default();
        let probability = word.parse::<f64>().ok().filter(|p| *p > 0.0 && *p <= 1.0);
        let probability = probability.ok_or_else(|| expected.to_owned())?;
        self.words = &self.words[1..];
        let seed = match self.words.first() {
            Some(&"seed") => {
                self.words = &self.words[1..];
                self.number("a seed: a whole number")?
            }
            _ => 0,
        };
        Ok(When::Randomly { probability, seed })
    }

    fn incarnation(&mut self, point: Point, when: When) -> Read<Option<Incarnation>> {
        if self.words.is_empty() {
            return Ok(Injection::usual_incarnation(point, when));
        }
        let expected = match when {
            When::Randomly { seed: 0, .. } => "'seed', 'in' or the end",
            When::Time(_) if point.is_first_moment() => "'after', 'with', 'in' or the end",
            _ => "'in' or the end",
        };
        self.one_of(&["in"]).map_err(|_| expected.to_owned())?;
        if self.one_of(&["incarnation", "every"])? == "every" {
            return self.one_of(&["incarnation"]).map(|_| None);
        }
        let words = self.words;
        let incarnation = Incarnation(self.number("the number of an incarnation")?);
        if incarnation < point.first_incarnation() {
            self.words = words;
            return Err(format!("an incarnation from 1 on, as the first does not reach '{}'", point.what()));
        }
        Ok(Some(incarnation))
    }

    /// Takes a word that must be one of these.
    fn one_of(&mut self, expected: &[&str]) -> Read<&'a str> {
        match self.words {
            [word, rest @ ..] if expected.contains(word) => {
                self.words = rest;
                Ok(word)
            }
            _ => Err(choice(expected)),
        }
    }

    fn number<T: FromStr>(&mut self, expected: &str) -> Read<T> {
        let word = self.words.first().filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
        let number = word.and_then(|word| word.parse().ok()).ok_or_else(|| expected.to_owned())?;
        self.words = &self.words[1..];
        Ok(number)
    }
}

/// `'a', 'b' or 'c'`.
fn choice(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        Some((last, _)) => last.clone(),
        None => String::new(),
    }
}
