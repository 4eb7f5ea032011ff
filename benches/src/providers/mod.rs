//! Providers: reading streamed answers, and what a run adds to the calls it makes.

mod overhead;
mod server;
mod streams;

use std::io::{BufRead, Read};

use meerkat_providers::fuzzing::{AnswerReader, Format};

use crate::measure::{Effort, Failure, Times, compare};

/// How many bytes arrive at once.
const PIECE: usize = 16 * 1024;
/// How many events a stream has.
const EVENTS: usize = 100_000;

pub(crate) fn run(effort: Effort) -> Result<(), Failure> {
    println!("providers");
    let mut outcome = Ok(());
    for (name, format) in [
        ("Anthropic", Format::Anthropic),
        ("Responses", Format::Responses),
        ("Chat", Format::Chat),
        ("Gemini", Format::Gemini),
    ] {
        outcome = outcome.and(reading(name, format, effort));
    }
    outcome.and(overhead::run(effort))
}

/// Reading an answer, against splitting the same bytes into lines.
fn reading(name: &str, format: Format, effort: Effort) -> Result<(), Failure> {
    let stream = streams::stream(format, EVENTS);
    let (mut ours, mut floor) = (Times::default(), Times::default());
    for _ in 0..effort.rounds(30) {
        ours.time_busy(|| read(format, &stream))?;
        floor.time_busy(|| lines(&stream))?;
    }
    let what = format!("reading {EVENTS} events of {name}, to splitting lines");
    compare(&what, (&ours, &floor), 5.0, effort)
}

fn read(format: Format, stream: &[u8]) -> Result<(), Failure> {
    let mut reader = AnswerReader::new(format);
    for piece in stream.chunks(PIECE) {
        reader.feed(piece, &|delta| {
            std::hint::black_box(delta);
        })?;
    }
    let answer = reader.finish()?;
    if answer.blocks.len() < 2 {
        return Err(format!("the answer has {} blocks", answer.blocks.len()).into());
    }
    Ok(())
}

fn lines(stream: &[u8]) -> Result<(), Failure> {
    for line in (Pieces { rest: stream }).lines() {
        std::hint::black_box(line?);
    }
    Ok(())
}

/// Bytes that arrive in pieces.
struct Pieces<'a> {
    rest: &'a [u8],
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.rest.read(buffer)
    }
}

impl BufRead for Pieces<'_> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        Ok(&self.rest[..self.rest.len().min(PIECE)])
    }

    fn consume(&mut self, amount: usize) {
        self.rest = &self.rest[amount..];
    }
}
