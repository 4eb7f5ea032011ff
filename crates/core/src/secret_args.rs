//! Detection of secrets in command-line arguments.
//!
//! An option is recognized by its name (`--api-key x`), or by the command it belongs to (`mysql -px`,
//! `curl --user a:x`). The command may itself be an argument, as after `env` or in a script for `sh -c`.

use std::ops::Range;

use crate::secret_name::is_secret_name;

/// A secret in an argument list: part of the argument at `index`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretArg {
    /// Index of the argument.
    pub index: usize,
    /// Byte range of the secret in the argument.
    pub range: Range<usize>,
}

/// Form in which a value contains its secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// The entire value is secret, except for a leading `pass:`.
    Secret,
    /// A name and a password, separated by this character.
    Login(char),
    /// A header: a name, a colon, and a value that is secret if the name implies it.
    Header,
}

/// Options of a command that take secrets although their names do not imply it.
struct Options {
    commands: &'static [&'static str],
    names: &'static [&'static str],
    holds: Holds,
}

const fn options(commands: &'static [&'static str], names: &'static [&'static str], holds: Holds) -> Options {
    Options { commands, names, holds }
}

/// `login` is the subcommand of `docker` and similar commands; their other subcommands use `-p` for a port.
const OPTIONS: [Options; 14] = [
    options(&["curl"], &["-u", "--user", "-U", "--proxy-user"], Holds::Login(':')),
    options(&["curl", "wget"], &["-H", "--header", "--proxy-header"], Holds::Header),
    options(&["curl"], &["-E", "--cert"], Holds::Login(':')),
    options(&["http", "https", "xh"], &["-a"], Holds::Login(':')),
    options(&["smbclient", "rpcclient", "smbget"], &["-U", "--user"], Holds::Login('%')),
    options(&["lftp"], &["-u", "--user"], Holds::Login(',')),
    options(&["redis-cli", "valkey-cli"], &["-a"], Holds::Secret),
    options(
        &["ldapadd", "ldapdelete", "ldapmodify", "ldappasswd", "ldapsearch", "ldapwhoami"],
        &["-w"],
        Holds::Secret,
    ),
    options(
        &["bcp", "isql", "mosquitto_pub", "mosquitto_sub", "sqlcmd", "tsql", "unzip", "zip", "zipcloak"],
        &["-P"],
        Holds::Secret,
    ),
    options(&ATTACHED_ONLY, &["-p"], Holds::Secret),
    options(
        &[
            "cqlsh",
            "login",
            "mongo",
            "mongodump",
            "mongoexport",
            "mongoimport",
            "mongorestore",
            "mongosh",
            "rabbitmqadmin",
            "sshpass",
        ],
        &["-p"],
        Holds::Secret,
    ),
    options(&["ipmitool"], &["-P"], Holds::Secret),
    options(&["snmpget", "snmpwalk"], &["-A", "-X", "-c"], Holds::Secret),
    // The command that `sshpass` runs has a different `-p`.
    options(&["rsync", "scp", "sftp", "ssh"], &[], Holds::Secret),
];

/// Commands whose `-p` takes a password only in the same word; alone, it prompts for one.
const ATTACHED_ONLY: [&str; 10] = [
    "7z",
    "7za",
    "mariadb",
    "mariadb-admin",
    "mariadb-dump",
    "mysql",
    "mysqladmin",
    "mysqldump",
    "mysqlimport",
    "mysqlsh",
];

const SHELLS: [&str; 6] = ["ash", "bash", "dash", "ksh", "sh", "zsh"];
/// Characters that end a value in a shell script. A mask must not cover what follows: commands have to stay visible.
const ENDS_VALUE: &str = ";|<>()`&$'\"\\";

/// Returns the secrets in the arguments of a command, as identified by options, variables, and headers.
#[must_use]
pub fn secret_args(command: &str, args: &[String]) -> Vec<SecretArg> {
    let mut reader = Reader::new(base(command), Text::Arguments);
    let mut found = Vec::new();
    for (index, arg) in args.iter().enumerate() {
        found.extend(reader.secrets(arg).into_iter().map(|range| SecretArg { index, range }));
    }
    found
}

fn base(command: &str) -> &str {
    command.rsplit('/').next().unwrap_or(command)
}

struct Reader {
    /// Command whose options apply.
    command: String,
    /// Expected content of the next argument, if the previous one determines it.
    expected: Option<(Holds, Known)>,
    text: Text,
}

/// Kind of text being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Text {
    /// Literal arguments of a command.
    Arguments,
    /// Text interpreted by a shell.
    Script,
}

/// Evidence that an option takes a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// By the command; the next argument is its value.
    ByCommand,
    /// By its name; it may also be a flag without a value.
    ByName,
}

impl Reader {
    fn new(command: &str, text: Text) -> Self {
        let text = if SHELLS.contains(&command) { Text::Script } else { text };
        Self { command: command.to_owned(), expected: None, text }
    }

    /// Returns the secret parts of an argument.
    fn secrets(&mut self, arg: &str) -> Vec<Range<usize>> {
        let mut found = self.read(arg);
        if self.text == Text::Script {
            for range in &mut found {
                let value = &arg[range.clone()];
                range.end =
                    range.start + value.find(|letter| ENDS_VALUE.contains(letter)).unwrap_or(value.len());
            }
            found.retain(|range| !range.is_empty());
        }
        found
    }

    fn read(&mut self, arg: &str) -> Vec<Range<usize>> {
        // A header in a script is split into two words.
        if self.text == Text::Script && arg.strip_suffix(':').is_some_and(is_secret_name) {
            self.expected = Some((Holds::Secret, Known::ByCommand));
            return Vec::new();
        }
        if let Some((holds, known)) = self.expected.take()
            && (known == Known::ByCommand || !arg.starts_with('-'))
        {
            if self.text == Text::Script && is_scheme(arg) {
                self.expected = Some((holds, known));
                return Vec::new();
            }
            return holds.find(arg).into_iter().collect();
        }
        if arg.contains(char::is_whitespace) {
            return Holds::Header.find(arg).map_or_else(|| script(&self.command, arg), |range| vec![range]);
        }
        if let Some(range) = self.attached(arg) {
            return vec![range];
        }
        if let Some((name, value)) = arg.split_once('=') {
            let start = name.len() + 1;
            if let Some((holds, _)) = self.holds(name) {
                return shifted(holds.find(value).into_iter().collect(), start);
            }
            // A variable set by an option: `--env=PGPASSWORD=x`.
            let Some((variable, value)) = value.split_once('=') else { return Vec::new() };
            let start = start + variable.len() + 1;
            let holds = self.holds(variable).map(|(holds, _)| holds);
            return shifted(holds.and_then(|holds| holds.find(value)).into_iter().collect(), start);
        }
        if arg.starts_with('-') {
            let asks = arg == "-p" && ATTACHED_ONLY.contains(&self.command.as_str());
            self.expected = if asks { None } else { self.holds(arg) };
        } else if OPTIONS.iter().any(|options| options.commands.contains(&base(arg))) {
            base(arg).clone_into(&mut self.command);
        } else if SHELLS.contains(&base(arg)) {
            self.text = Text::Script;
        }
        Vec::new()
    }

    /// Returns the form of the secret in the value of an option or variable.
    fn holds(&self, name: &str) -> Option<(Holds, Known)> {
        let known = self.options().find(|options| options.names.contains(&name));
        let known = known.map(|options| (options.holds, Known::ByCommand));
        known.or_else(|| is_secret_name(name).then_some((Holds::Secret, Known::ByName)))
    }

    fn options(&self) -> impl Iterator<Item = &'static Options> {
        OPTIONS.iter().filter(|options| options.commands.contains(&self.command.as_str()))
    }

    /// Finds a value attached to its option: `-psecret`.
    fn attached(&self, arg: &str) -> Option<Range<usize>> {
        self.options().find_map(|options| {
            let short = options.names.iter().filter(|name| !name.starts_with("--"));
            let name = short.into_iter().find(|name| arg.len() > name.len() && arg.starts_with(**name))?;
            let range = options.holds.find(&arg[name.len()..])?;
            Some(range.start + name.len()..range.end + name.len())
        })
    }
}

impl Holds {
    fn find(self, value: &str) -> Option<Range<usize>> {
        let start = match self {
            Self::Secret => value.len() - value.strip_prefix("pass:").unwrap_or(value).len(),
            Self::Login(separator) => value.find(separator)? + separator.len_utf8(),
            Self::Header => {
                let (name, text) = value.split_once(':')?;
                let is_name =
                    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
                if !is_name || !is_secret_name(name) {
                    return None;
                }
                value.len() - text.trim_start().len()
            }
        };
        (start < value.len()).then_some(start..value.len())
    }
}

/// Finds secrets in a command line passed as one argument.
fn script(command: &str, line: &str) -> Vec<Range<usize>> {
    let mut reader = Reader::new(command, Text::Script);
    let mut found = Vec::new();
    let mut end = 0;
    let ends = |letter: char| letter.is_whitespace() || letter == ';';
    for word in line.split_inclusive(ends) {
        end += word.len();
        let bare = word.trim_start_matches(['\'', '"']);
        let start = end - bare.len();
        let bare = bare.trim_end_matches(|letter: char| ends(letter) || matches!(letter, '\'' | '"'));
        found.extend(shifted(reader.secrets(bare), start));
    }
    found
}

/// Returns `true` for the scheme before the secret in an `Authorization` header.
pub(crate) fn is_scheme(word: &str) -> bool {
    ["basic", "bearer", "token"].iter().any(|known| word.eq_ignore_ascii_case(known))
}

fn shifted(ranges: Vec<Range<usize>>, by: usize) -> Vec<Range<usize>> {
    ranges.into_iter().map(|range| range.start + by..range.end + by).collect()
}

#[cfg(test)]
mod tests {
    use super::secret_args;

    /// Returns a command line with its secrets masked.
    fn masked(line: &[&str]) -> String {
        let mut args: Vec<String> = line[1..].iter().map(|arg| (*arg).to_owned()).collect();
        for secret in secret_args(line[0], &args).into_iter().rev() {
            args[secret.index].replace_range(secret.range, "***");
        }
        format!("{} {}", line[0], args.join(" "))
    }

    #[test]
    fn known_options_of_commands_hold_secrets() {
        let table: [(&[&str], &str); 28] = [
            (&["mysql", "-u", "root", "-psecret", "-P", "3306"], "mysql -u root -p*** -P 3306"),
            (&["/usr/bin/mysqldump", "-p", "shop"], "/usr/bin/mysqldump -p shop"),
            (&["mysql", "--password=secret"], "mysql --password=***"),
            (&["sshpass", "-p", "secret", "ssh", "-p", "22", "host"], "sshpass -p *** ssh -p 22 host"),
            (&["sshpass", "-psecret", "ssh", "host"], "sshpass -p*** ssh host"),
            (&["ssh", "-p", "22", "host"], "ssh -p 22 host"),
            (&["curl", "--user", "ada:secret", "https://x"], "curl --user ada:*** https://x"),
            (&["curl", "-uada:secret", "https://x"], "curl -uada:*** https://x"),
            (&["curl", "--user=ada:secret"], "curl --user=ada:***"),
            (&["curl", "-u", "ada"], "curl -u ada"),
            (&["curl", "-H", "Authorization: Bearer secret"], "curl -H Authorization: ***"),
            (&["curl", "-HX-Api-Key:secret"], "curl -HX-Api-Key:***"),
            (&["curl", "-H", "Accept: text/html"], "curl -H Accept: text/html"),
            (&["redis-cli", "-a", "-secret"], "redis-cli -a ***"),
            (&["smbclient", "-U", "ada%secret"], "smbclient -U ada%***"),
            (&["openssl", "rsa", "-passin", "pass:secret"], "openssl rsa -passin pass:***"),
            (&["env", "PGPASSWORD=secret", "psql", "-p", "5432"], "env PGPASSWORD=*** psql -p 5432"),
            (&["docker", "run", "--env=MYSQL_PWD=secret", "x"], "docker run --env=MYSQL_PWD=*** x"),
            (&["docker", "run", "-eSSHPASS=secret", "x"], "docker run -eSSHPASS=*** x"),
            (&["docker", "run", "-p", "127.0.0.1:80:80"], "docker run -p 127.0.0.1:80:80"),
            (&["docker", "login", "-u", "ada", "-p", "secret"], "docker login -u ada -p ***"),
            (&["mongosh", "-u", "ada", "-p", "secret"], "mongosh -u ada -p ***"),
            (&["npx", "tool", "--api-key", "c2VjcmV0=="], "npx tool --api-key ***"),
            (&["npx", "tool", "--token", "--verbose"], "npx tool --token --verbose"),
            (&["sh", "-c", "mysql -psecret; curl -u 'a:secret' x"], "sh -c mysql -p***; curl -u 'a:***' x"),
            (&["sh", "-c", "PGPASSWORD=secret psql -h db"], "sh -c PGPASSWORD=*** psql -h db"),
            (&["timeout", "5", "redis-cli", "-a", "secret"], "timeout 5 redis-cli -a ***"),
            (
                &["sh", "-c", "curl -H 'Authorization: Bearer secret' x"],
                "sh -c curl -H 'Authorization: Bearer ***' x",
            ),
        ];
        for (line, expected) in table {
            assert_eq!(masked(line), expected);
        }
    }

    #[test]
    fn mask_never_covers_a_command() {
        let table: [(&[&str], &str); 6] = [
            (&["sh", "-c", "TOKEN=$(curl${IFS}evil)"], "sh -c TOKEN=$(curl${IFS}evil)"),
            (&["sh", "-c", "TOKEN=secret;evil"], "sh -c TOKEN=***;evil"),
            (&["env", "bash", "-c", "TOKEN=secret&&evil"], "env bash -c TOKEN=***&&evil"),
            (&["sh", "-c", "mysql -psecret`evil` x"], "sh -c mysql -p***`evil` x"),
            (&["sh", "-c", "x --token secret|evil"], "sh -c x --token ***|evil"),
            (&["npx", "x", "--token", "a$(b)"], "npx x --token ***"),
        ];
        for (line, expected) in table {
            assert_eq!(masked(line), expected);
        }
    }

    #[test]
    fn any_number_of_equal_signs_is_read() {
        let many = "=".repeat(400_000);
        assert_eq!(masked(&["run", &many]), format!("run {many}"));
        assert_eq!(masked(&["run", "--env=PGPASSWORD=x=y"]), "run --env=PGPASSWORD=***");
    }
}
