//! Finding a session by what people write: an id, the beginning of one, `last`, `~N`.

use meerkat::{Runtime, SessionId, SessionQuery};

use crate::error::CliError;

/// A session as written on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Locator {
    /// The realm, where it is named.
    pub(crate) realm: Option<String>,
    text: String,
}

/// How many sessions are looked through for the beginning of an id.
const SEARCHED: u64 = 100_000;

impl Locator {
    pub(crate) fn parse(text: &str) -> Self {
        match text.split_once(':') {
            Some((realm, id)) => Self { realm: Some(realm.to_owned()), text: id.to_owned() },
            None => Self { realm: None, text: text.to_owned() },
        }
    }

    /// Finds the session.
    pub(crate) async fn find(&self, runtime: &Runtime) -> Result<SessionId, CliError> {
        if let Ok(id) = self.text.parse() {
            return Ok(id);
        }
        match self.text.strip_prefix('~').map(str::parse::<u64>) {
            Some(Ok(back)) => self.nth_last(runtime, back).await,
            _ if self.text == "last" => self.nth_last(runtime, 0).await,
            _ => self.by_beginning(runtime).await,
        }
    }

    async fn nth_last(&self, runtime: &Runtime, back: u64) -> Result<SessionId, CliError> {
        let query = SessionQuery { offset: back, limit: Some(1), ..SessionQuery::default() };
        let found = runtime.sessions().list(query).await?;
        let id = found.first().map(|session| session.id);
        id.ok_or_else(|| {
            let realm = runtime.realm().id();
            CliError::NoSession(format!(
                "realm `{realm}` has no session `{}`; `rkat session list` shows them",
                self.text
            ))
        })
    }

    async fn by_beginning(&self, runtime: &Runtime) -> Result<SessionId, CliError> {
        let archived = meerkat::Archived::Included;
        let query = SessionQuery { archived, limit: Some(SEARCHED), ..SessionQuery::default() };
        let found: Vec<_> = runtime
            .sessions()
            .list(query)
            .await?
            .into_iter()
            .map(|session| session.id)
            .filter(|id| !self.text.is_empty() && id.to_string().starts_with(&self.text.to_lowercase()))
            .collect();
        match found.as_slice() {
            [id] => Ok(*id),
            [] => Err(CliError::NoSession(format!(
                "no session begins with `{}`; `rkat session list` shows them",
                self.text
            ))),
            several => {
                let ids: Vec<_> = several.iter().take(5).map(ToString::to_string).collect();
                Err(CliError::Usage(format!(
                    "{} sessions begin with `{}`: {}",
                    several.len(),
                    self.text,
                    ids.join(", ")
                )))
            }
        }
    }
}
