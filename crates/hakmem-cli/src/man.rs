//! Pages for `man`. clap_mangen makes the sections of a command's options. The usage, and the text
//! behind the help, with its lists and examples, keep their lines.

use clap::Command;
use clap_mangen::Man;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Writes a page for the command and for each of its subcommands that help lists.
pub fn write(mut command: Command, folder: &Path) -> io::Result<()> {
    // Gives the subcommands their whole names.
    command.build();
    write_built(&command, folder)
}

fn write_built(command: &Command, folder: &Path) -> io::Result<()> {
    let listed = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    for subcommand in command.get_subcommands().filter(listed) {
        write_built(subcommand, folder)?;
    }
    let mut page = Vec::new();
    render(command, &mut page)?;
    let name = command.get_display_name().unwrap_or(command.get_name());
    fs::write(folder.join(format!("{name}.1")), page)
}

fn render(command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let man = Man::new(command.clone().disable_help_subcommand(true));
    man.render_title(page)?;
    man.render_name_section(page)?;
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    writeln!(page, ".SH SYNOPSIS\n.nf\n{}.fi", lines(usage))?;
    man.render_description_section(page)?;
    if command
        .get_arguments()
        .any(|argument| !argument.is_hide_set())
    {
        man.render_options_section(page)?;
    }
    if command
        .get_subcommands()
        .any(|subcommand| !subcommand.is_hide_set())
    {
        man.render_subcommands_section(page)?;
    }
    let behind = command.get_after_long_help().or(command.get_after_help());
    if let Some(text) = behind {
        writeln!(page, ".SH NOTES\n.ad l\n{}", with_lists(&text.to_string()))?;
    }
    Ok(())
}

/// A text whose indented lines are a list or an example each, and whose other lines are paragraphs.
fn with_lists(text: &str) -> String {
    let mut page = String::new();
    let mut is_list = false;
    for line in text.lines() {
        let is_indented = line.starts_with(' ');
        if is_indented != is_list && !line.is_empty() {
            page += if is_indented { ".nf\n" } else { ".fi\n" };
            is_list = is_indented;
        }
        page += &if line.is_empty() {
            ".PP\n".to_owned()
        } else {
            lines(line)
        };
        // What follows a list begins a line of its own.
        if !is_indented && !line.is_empty() {
            page += ".br\n";
        }
    }
    if is_list {
        page += ".fi\n";
    }
    page
}

/// The lines as roff shows them as they are.
fn lines(text: &str) -> String {
    let mut page = String::new();
    for line in text.lines() {
        if line.starts_with(['.', '\'']) {
            page += "\\&";
        }
        for c in line.chars() {
            match c {
                '\\' => page += "\\e",
                '-' => page += "\\-",
                '\'' => page += "\\(aq",
                '`' => page += "\\(ga",
                c => page.push(c),
            }
        }
        page.push('\n');
    }
    page
}
