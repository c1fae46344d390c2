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

/// A text in lines between words. A word that is longer than a line is whole in a line of its own:
/// it may be a name that is copied.
pub fn words(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if length(line) + 1 + length(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A text in lines that end with a comma or a semicolon, but for the last one. What is in brackets
/// stays together. Only what is longer than a line ends between other words.
pub fn clauses(text: &str, width: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for clause in parts(text) {
        if !line.is_empty() && length(&line) + 1 + length(&clause) > width {
            lines.extend(wrap(&std::mem::take(&mut line), width, 0));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += &clause;
    }
    lines.extend(wrap(&line, width, 0));
    lines
}

/// The parts of a text that end with a comma or a semicolon outside brackets.
fn parts(text: &str) -> Vec<String> {
    let (mut parts, mut part, mut depth) = (Vec::new(), Vec::new(), 0_usize);
    for word in text.split_whitespace() {
        depth += word.matches('(').count();
        depth = depth.saturating_sub(word.matches(')').count());
        part.push(word);
        if depth == 0 && word.ends_with([',', ';']) {
            parts.push(part.join(" "));
            part.clear();
        }
    }
    if !part.is_empty() {
        parts.push(part.join(" "));
    }
    parts
}

/// The beginning of a text, with … where something is left out.
pub fn cut(text: &str, most: usize) -> String {
    if length(text) <= most {
        return text.to_owned();
    }
    let kept = text.chars().take(most.saturating_sub(1));
    kept.chain((most > 0).then_some('…')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_a_clause() {
        let text = "1,234 (2, 3), 4; 5 and six";
        assert_eq!(clauses(text, 26), [text]);
        assert_eq!(clauses(text, 25), ["1,234 (2, 3), 4;", "5 and six"]);
        assert_eq!(clauses(text, 15), ["1,234 (2, 3),", "4; 5 and six"]);
        assert_eq!(clauses(text, 8), ["1,234", "(2, 3),", "4;", "5 and", "six"]);
        assert_eq!(clauses("", 8), [""]);
    }

    #[test]
    fn what_is_cut_says_so() {
        let cuts = [4, 3, 1, 0].map(|most| cut("abcd", most));
        assert_eq!(cuts, ["abcd", "ab…", "…", ""]);
    }

    #[test]
    fn texts_are_wrapped_between_words() {
        assert_eq!(wrap("ab cd efgh ij", 5, 1), ["ab cd", " efgh", " ij"]);
        assert_eq!(wrap("abcdefgh", 3, 0), ["abc", "def", "gh"]);
        assert_eq!(wrap("", 3, 0), [""]);
    }

    #[test]
    fn long_words_stay_whole() {
        assert_eq!(words("ab cd /efgh/ij k l", 5), ["ab cd", "/efgh/ij", "k l"]);
        assert_eq!(words(" ", 5), [""; 0]);
    }
}
