//! Memory search among a hundred thousand entries.

use std::time::Duration;

use meerkat_core::{SessionId, Timestamp};
use meerkat_store::{
    Change, MemoryQuery, NewMemory, NewSession, Realm, RealmOptions, RealmOrigin, Transaction,
};
use uuid::Uuid;

use crate::floor::dir;
use crate::measure::{Effort, Failure, Times, report};

/// Time limit for one search at the 99th percentile.
const SEARCH: Duration = Duration::from_millis(20);
/// Number of sessions, and entries per session.
const SESSIONS: usize = 100;
const ENTRIES: usize = 1000;
/// Number of words in the vocabulary; a word is rarer the higher its number.
const VOCABULARY: u64 = 20_000;

pub(crate) fn run(effort: Effort) -> Result<(), Failure> {
    println!("memory");
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(search(effort))
}

/// Reproducible pseudorandom numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a word; few are common and most are rare, as in natural language.
    fn word(&mut self) -> String {
        let share = (self.roll() % 10_000) as f64 / 10_000.0;
        format!("word{}", (VOCABULARY as f64).powf(share) as u64)
    }

    fn text(&mut self, words: usize) -> String {
        (0..words).map(|_| self.word()).collect::<Vec<_>>().join(" ")
    }
}

async fn search(effort: Effort) -> Result<(), Failure> {
    let place = dir()?;
    let realm = Realm::open(RealmOptions {
        state_root: place.path().to_owned(),
        realm: "memory".parse()?,
        origin: RealmOrigin::Explicit,
        workspace: None,
        backend_hint: None,
        instance: None,
        surface: "bench".to_owned(),
        now: Timestamp::UNIX_EPOCH,
        owner: Uuid::from_u128(1),
    })?;
    let store = realm.store();
    let mut dice = Dice(0x2545_F491_4F6C_DD1D);
    let sessions: Vec<_> =
        (0..SESSIONS as u128).map(|n| SessionId::from_uuid(Uuid::from_u128(n + 1))).collect();
    for id in &sessions {
        store.commit(Transaction { guards: Vec::new(), changes: entries(*id, &mut dice) }).await?;
    }
    let mut outcome = Ok(());
    for (name, own) in [("of its session", true), ("of the realm", false)] {
        let mut times = Times::default();
        for at in 0..effort.rounds(1000) {
            let words = (0..4).map(|_| dice.word()).collect();
            let session = own.then(|| sessions[at % SESSIONS]);
            let start = std::time::Instant::now();
            store.search_memories(MemoryQuery { words, session, limit: 5 }).await?;
            times.push(start.elapsed());
        }
        let slowest = times.percentile(99);
        let value = format!("{slowest:?}, median {:?}", times.median());
        report(&format!("100000 memories: one search {name}, p99"), &value);
        if slowest > SEARCH && effort == Effort::Full {
            outcome =
                Err(format!("a search {name} takes {slowest:?} at the 99th percentile, target {SEARCH:?}")
                    .into());
        }
    }
    outcome
}

fn entries(id: SessionId, dice: &mut Dice) -> Vec<Change> {
    let at = Timestamp::UNIX_EPOCH;
    let labels = std::collections::BTreeMap::new();
    let new = NewSession { id, created_at: at, labels, settings: Vec::new(), progress: Vec::new() };
    let memories = (0..ENTRIES as u64).map(|seq| NewMemory { seq, text: dice.text(40) }).collect();
    vec![Change::CreateSession(new), Change::IndexMemories { session: id, memories, at }]
}
