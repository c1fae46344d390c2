//! Text in lines of a terminal.

/// The columns of a terminal of which nothing is known.
pub const WIDTH: usize = 80;

pub fn length(text: &str) -> usize {
    text.chars().count()
}

/// A text in lines between words, those after the first indented. A word that is longer than a line
/// goes on in the next.
pub fn wrap(text: &str, width: usize, indent: usize) -> Vec<String> {
    let width = width.max(1);
    let indent = if indent * 2 < width { indent } else { 0 };
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_whitespace() {
        let begun = !line.trim_start().is_empty();
        if begun && length(&line) + 1 + length(word) > width {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
        } else if begun {
            line.push(' ');
        }
        for c in word.chars() {
            if length(&line) == width {
                lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            }
            line.push(c);
        }
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_wrapped_between_words() {
        assert_eq!(wrap("ab cd efgh ij", 5, 1), ["ab cd", " efgh", " ij"]);
        assert_eq!(wrap("abcdefgh", 3, 0), ["abc", "def", "gh"]);
        assert_eq!(wrap("", 3, 0), [""]);
    }
}
