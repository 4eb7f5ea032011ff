//! Providers: reading streamed responses, and the overhead of a run over its calls.

mod overhead;
mod server;
mod streams;

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use meerkat_providers::fuzzing::{AnswerReader, Format};

use crate::floor::dir;
use crate::measure::{Effort, Failure, Times, compare};

/// Number of bytes that arrive at once.
const PIECE: usize = 16 * 1024;
/// Number of events per stream.
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

/// Measures reading a stream as a response, against reading it as lines.
fn reading(name: &str, format: Format, effort: Effort) -> Result<(), Failure> {
    let dir = dir()?;
    let stream = dir.path().join("stream");
    std::fs::write(&stream, streams::stream(format, EVENTS))?;
    let (mut ours, mut floor) = (Times::default(), Times::default());
    for _ in 0..effort.rounds(30) {
        ours.time(|| answer(format, &stream))?;
        floor.time(|| lines(&stream))?;
    }
    let what = format!("reading {EVENTS} events of {name}, vs. splitting lines");
    compare(&what, (&ours, &floor), 5.0, effort)
}

fn answer(format: Format, stream: &Path) -> Result<(), Failure> {
    let mut stream = File::open(stream)?;
    let mut piece = vec![0; PIECE];
    let mut reader = AnswerReader::new(format);
    loop {
        let length = stream.read(&mut piece)?;
        if length == 0 {
            break;
        }
        reader.feed(&piece[..length], &|delta| {
            std::hint::black_box(delta);
        })?;
    }
    let answer = reader.finish()?;
    if answer.blocks.len() < 2 {
        return Err(format!("the response has {} blocks", answer.blocks.len()).into());
    }
    Ok(())
}

fn lines(stream: &Path) -> Result<(), Failure> {
    for line in BufReader::with_capacity(PIECE, File::open(stream)?).lines() {
        std::hint::black_box(line?);
    }
    Ok(())
}
