//! What users are called.

use crate::checked;
use std::path::Path;

/// A longer file is read up to here.
const MOST: u64 = 1 << 20;

/// The name of a user, or the number of one without a name in the system's file.
pub fn name(user: u32) -> String {
    let bytes = checked::start(Path::new("/etc/passwd"), MOST).unwrap_or_default();
    in_file(&String::from_utf8_lossy(&bytes), user)
}

fn in_file(text: &str, user: u32) -> String {
    let named = |line: &str| {
        let mut words = line.split(':');
        let name = words.next().filter(|name| !name.is_empty())?;
        (words.nth(1)?.parse() == Ok(user)).then(|| checked::name(name))
    };
    let found = text.lines().find_map(named);
    found.unwrap_or_else(|| format!("user {user}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_name_or_a_number() {
        let text = "root:x:0:0:root:/root:/bin/sh\n#\nwww:x:33:33::/:\n";
        let names = [0, 33, 34].map(|user| in_file(text, user));
        assert_eq!(names, ["root", "www", "user 34"]);
    }
}
