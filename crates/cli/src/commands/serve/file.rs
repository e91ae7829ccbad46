//! Settings from a TOML file.

use crate::failure::Failure;
use quipu_server::config::{Origin, Settings, settings};
use std::path::Path;

/// Longer than this it is another kind of file.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// How alike a wrong name and a right one must be for the right one to be suggested; 1 is equality.
const LIKENESS_MIN: f64 = 0.7;

/// Adds what the file says to what is said elsewhere.
pub(super) fn read(path: &Path, settings: &mut Settings) -> Result<(), Failure> {
    let refuse = |problem: String| Failure::Usage {
        flag: "--config",
        problem: format!("{} {problem}", path.display()),
    };
    let unreadable = |error| refuse(format!("cannot be read: {error}; name a file, or none"));
    if std::fs::metadata(path).map_err(unreadable)?.len() > FILE_BYTES_MAX {
        return Err(refuse(format!("has more than {FILE_BYTES_MAX} bytes; that is no file of settings")));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let table: toml::Table = text.parse().map_err(|error| refuse(format!("is not TOML: {error}")))?;
    for (key, value) in &table {
        let known = settings::ALL.iter().find(|known| known.name == key);
        let known = known.ok_or_else(|| refuse(unknown(key)))?;
        let text = plain(value).ok_or_else(|| {
            // Without the value: it may be a password.
            refuse(format!("has no single value for {key:?}; give a text, a number, true or false"))
        })?;
        settings.give(known, text, Origin::File(path.to_owned()));
    }
    Ok(())
}

fn unknown(key: &str) -> String {
    let likeness = |name: &str| strsim::jaro_winkler(name, &key.replace('_', "-"));
    let nearest =
        settings::ALL.iter().map(|known| known.name).max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match nearest.filter(|name| likeness(name) >= LIKENESS_MIN) {
        Some(name) => format!("has the key {key:?}, which is no setting; is {name:?} meant?"),
        None => {
            let names: Vec<&str> = settings::ALL.iter().map(|known| known.name).collect();
            format!("has the key {key:?}, which is no setting; there are: {}", names.join(", "))
        }
    }
}

fn plain(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(yes) => Some(yes.to_string()),
        toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => None,
    }
}
