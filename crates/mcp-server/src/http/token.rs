//! Token that clients must send: its sources, and the line that connects a client with it.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use meerkat::ConfigAccess;
use meerkat::token;

use super::ListenError;

/// Token that clients must send.
#[derive(Clone, PartialEq, Eq)]
pub enum ClientToken {
    /// Token chosen by the user.
    Given(String),
    /// Realm's own token, which the server prints for the user.
    Realm(String),
    /// No token: every user of this machine is a client.
    None,
}

/// Sources of a server's token.
#[derive(Debug, Clone, Default)]
pub struct TokenOptions {
    /// Whether no token is required.
    pub no_token: bool,
    /// File with the token.
    pub file: Option<PathBuf>,
    /// Token itself, used if there is no file. The realm's own token counts as not chosen.
    pub value: Option<String>,
    /// Directory of the realm whose token is used otherwise; without it, a token is generated for this process.
    pub realm_dir: Option<PathBuf>,
}

impl TokenOptions {
    /// Returns the token, creating the realm's own if no other is chosen. Blocks on the file system.
    ///
    /// # Errors
    /// Returns an error if the token cannot be read or stored.
    pub fn resolve(self) -> Result<ClientToken, ListenError> {
        if self.no_token {
            return Ok(ClientToken::None);
        }
        if let Some(path) = self.file {
            let read = std::fs::read_to_string(&path);
            return read.map(ClientToken::Given).map_err(|source| ListenError::TokenFile { path, source });
        }
        let is_own = |value: &String| self.realm_dir.as_deref().is_some_and(|dir| token::is_own(dir, value));
        if let Some(value) = self.value.filter(|value| !is_own(value)) {
            return Ok(ClientToken::Given(value));
        }
        let own = self.realm_dir.map_or_else(|| Ok(token::generate()), |dir| token::read_or_create(&dir));
        Ok(ClientToken::Realm(own?))
    }
}

impl ClientToken {
    /// Returns the secret without surrounding whitespace.
    #[must_use]
    pub fn secret(&self) -> Option<&str> {
        match self {
            Self::Given(secret) | Self::Realm(secret) => Some(secret.trim()),
            Self::None => None,
        }
    }

    /// Returns the config access of the server's clients.
    #[must_use]
    pub fn access(&self) -> ConfigAccess {
        match self {
            Self::Given(_) | Self::Realm(_) => ConfigAccess::Client,
            Self::None => ConfigAccess::Anonymous,
        }
    }

    /// Returns the line for connecting a client, if the token is the realm's own. It contains the token.
    #[must_use]
    pub fn connect_line(&self, address: SocketAddr) -> Option<String> {
        let Self::Realm(secret) = self else { return None };
        let url = format!("http://{address}/mcp");
        Some(format!(
            "connect a client: claude mcp add --transport http meerkat {url} --header \"Authorization: Bearer {secret}\""
        ))
    }
}

impl fmt::Debug for ClientToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Given(_) => "Given(***)",
            Self::Realm(_) => "Realm(***)",
            Self::None => "None",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientToken, TokenOptions};
    use meerkat::ConfigAccess;
    use meerkat_testkit::Scratch;

    #[test]
    fn chosen_token_takes_precedence() {
        let directory = Scratch::new();
        let file = directory.join("chosen");
        std::fs::write(&file, "from a file\n").unwrap();
        let options = TokenOptions {
            realm_dir: Some(directory.path().to_owned()),
            value: Some("a value".to_owned()),
            file: Some(file),
            no_token: true,
        };
        assert_eq!(options.clone().resolve().unwrap(), ClientToken::None);
        let options = TokenOptions { no_token: false, ..options };
        assert_eq!(options.clone().resolve().unwrap().secret(), Some("from a file"));
        let options = TokenOptions { file: None, ..options };
        assert_eq!(options.clone().resolve().unwrap(), ClientToken::Given("a value".to_owned()));
        assert!(!directory.join("token").exists());
        let options = TokenOptions { value: None, ..options };
        let own = options.clone().resolve().unwrap();
        assert_eq!(own, options.resolve().unwrap(), "the realm's token is reused");
        assert!(matches!(own, ClientToken::Realm(_)), "{own:?}");
    }

    #[test]
    fn realms_own_token_counts_as_not_chosen() {
        let directory = Scratch::new();
        let realm_dir = Some(directory.path().to_owned());
        let own = TokenOptions { realm_dir: realm_dir.clone(), ..TokenOptions::default() }.resolve().unwrap();
        let value = own.secret().map(|secret| format!("{secret}\n"));
        assert_eq!(TokenOptions { value, realm_dir, ..TokenOptions::default() }.resolve().unwrap(), own);
    }

    #[test]
    fn realm_without_directory_gets_its_own_token() {
        let [one, other] = [(), ()].map(|()| TokenOptions::default().resolve().unwrap());
        assert!(one.secret().is_some_and(|secret| secret.len() == 64) && one != other);
    }

    #[test]
    fn only_the_realms_token_is_printed() {
        let address = "127.0.0.1:8080".parse().unwrap();
        let realm = ClientToken::Realm("abc".to_owned());
        assert_eq!(
            realm.connect_line(address).unwrap(),
            "connect a client: claude mcp add --transport http meerkat http://127.0.0.1:8080/mcp --header \
             \"Authorization: Bearer abc\""
        );
        let chosen = ClientToken::Given("abc".to_owned());
        assert_eq!((chosen.connect_line(address), ClientToken::None.connect_line(address)), (None, None));
        assert_eq!(
            (chosen.access(), ClientToken::None.access()),
            (ConfigAccess::Client, ConfigAccess::Anonymous)
        );
        assert_eq!(format!("{realm:?} {chosen:?}"), "Realm(***) Given(***)");
    }
}
