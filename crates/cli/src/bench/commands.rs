//! The bytes of commands: built once, and then only the digits in them change.

/// Digits of a key's number, as `redis-benchmark` writes them.
const KEY_DIGITS: usize = 12;
/// Digits of an operation id.
const ID_DIGITS: usize = 12;

/// Operation ids of one connection: its producer, and the id of the next add.
#[derive(Debug, Clone)]
pub(super) struct Ids {
    pub(super) producer: String,
    pub(super) next: u64,
}

/// Writes adds and reads for numbered keys.
#[derive(Debug, Clone)]
pub(super) struct Commands {
    add: Template,
    read: Template,
    ids: Option<Ids>,
}

/// A whole command, and where in it digits are to be put.
#[derive(Debug, Clone)]
struct Template {
    bytes: Vec<u8>,
    key_at: usize,
    id_at: Option<usize>,
}

impl Commands {
    /// Keys are `prefix` and twelve digits.
    pub(super) fn new(prefix: &str, ids: Option<Ids>) -> Self {
        let key = format!("{prefix}{:0KEY_DIGITS$}", 0);
        let mut add = vec!["INCRBY", &key, "1"];
        let id = format!("{:0ID_DIGITS$}", 0);
        if let Some(ids) = &ids {
            add.extend(["IDMP", &ids.producer, &id]);
        }
        Commands { add: Template::new(&add, ids.is_some()), read: Template::new(&["GET", &key], false), ids }
    }

    /// Appends `INCRBY key 1`, with the next id if there are ids.
    pub(super) fn add(&mut self, key: u64, out: &mut Vec<u8>) {
        let id = self.ids.as_mut().map(|ids| {
            ids.next += 1;
            ids.next - 1
        });
        self.add.append(key, id.unwrap_or(0), out);
    }

    /// Appends `GET key`.
    pub(super) fn read(&self, key: u64, out: &mut Vec<u8>) {
        self.read.append(key, 0, out);
    }
}

impl Template {
    /// The key is the second argument; the id, if there is one, the last.
    fn new(arguments: &[&str], has_id: bool) -> Self {
        let (mut bytes, ends) = command(arguments);
        bytes.shrink_to_fit();
        let key_at = ends[1] - KEY_DIGITS;
        let id_at = has_id.then(|| ends[arguments.len() - 1] - ID_DIGITS);
        Template { bytes, key_at, id_at }
    }

    fn append(&self, key: u64, id: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        put_digits(&mut out[start + self.key_at..][..KEY_DIGITS], key);
        if let Some(id_at) = self.id_at {
            put_digits(&mut out[start + id_at..][..ID_DIGITS], id);
        }
    }
}

/// A command as an array of bulk strings, and where each argument ends in it.
fn command(arguments: &[&str]) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    let mut ends = Vec::with_capacity(arguments.len());
    for argument in arguments {
        bytes.extend_from_slice(format!("${}\r\n{argument}", argument.len()).as_bytes());
        ends.push(bytes.len());
        bytes.extend_from_slice(b"\r\n");
    }
    (bytes, ends)
}

/// The bytes of any command.
pub(super) fn encode(arguments: &[&str]) -> Vec<u8> {
    command(arguments).0
}

fn put_digits(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).expect("a digit");
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn adds_and_reads_are_arrays_of_bulk_strings() {
        let mut commands = Commands::new("key:", None);
        assert_eq!(
            text(|out| commands.add(12_345, out)),
            "*3\r\n$6\r\nINCRBY\r\n$16\r\nkey:000000012345\r\n$1\r\n1\r\n"
        );
        assert_eq!(text(|out| commands.read(7, out)), "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000007\r\n");
    }

    #[test]
    fn ids_rise_with_every_add_and_reads_have_none() {
        let ids = Ids { producer: "p1".to_owned(), next: 9 };
        let mut commands = Commands::new("k", Some(ids));
        let both = text(|out| {
            commands.add(1, out);
            commands.read(1, out);
            commands.add(2, out);
        });
        let add = |key: &str, id: &str| {
            format!(
                "*6\r\n$6\r\nINCRBY\r\n$13\r\nk{key}\r\n$1\r\n1\r\n$4\r\nIDMP\r\n$2\r\np1\r\n$12\r\n{id}\r\n"
            )
        };
        let read = "*2\r\n$3\r\nGET\r\n$13\r\nk000000000001\r\n";
        let expected = add("000000000001", "000000000009") + read + &add("000000000002", "000000000010");
        assert_eq!(both, expected);
    }
}
