//! The forms of a report that programs read: JSON, CSV and XML.

use super::figures::{Form, Key, Word};
use core::fmt::{self, Write};

/// One JSON object on one line. The caller writes its beginning and its end.
pub struct Json<'a, W> {
    pub out: &'a mut W,
    /// True if the next value needs no comma before it.
    pub first: bool,
}

impl<W: Write> Json<'_, W> {
    fn comma(&mut self) -> fmt::Result {
        let first = core::mem::replace(&mut self.first, false);
        if first { Ok(()) } else { self.out.write_char(',') }
    }
}

impl<W: Write> Form for Json<'_, W> {
    fn text(&mut self, name: &'static str, value: &str) -> fmt::Result {
        self.comma()?;
        write!(self.out, r#""{name}":"{value}""#)
    }

    fn figure(&mut self, name: &'static str, value: u64) -> fmt::Result {
        self.comma()?;
        write!(self.out, r#""{name}":{value}"#)
    }

    fn begin(&mut self, list: &'static str) -> fmt::Result {
        self.comma()?;
        self.first = true;
        write!(self.out, r#""{list}":["#)
    }

    fn item(&mut self, _list: &'static str, key: Key) -> fmt::Result {
        self.comma()?;
        let Key { name, value } = key;
        match value {
            Word::Number(n) => write!(self.out, r#"{{"{name}":{n}"#),
            _ => write!(self.out, r#"{{"{name}":"{value}""#),
        }
    }

    fn end_item(&mut self) -> fmt::Result {
        self.out.write_char('}')
    }

    fn end(&mut self) -> fmt::Result {
        self.first = false;
        self.out.write_char(']')
    }
}

/// A line for each figure: `pid,event,list,item,name,value`. In figures of the process, list and
/// item are empty.
pub struct Csv<'a, W> {
    pub out: &'a mut W,
    pub pid: i32,
    pub event: &'static str,
    item: Option<(&'static str, Word)>,
}

pub const CSV_HEADER: &str = "pid,event,list,item,name,value\n";

impl<'a, W> Csv<'a, W> {
    pub fn new(out: &'a mut W, pid: i32, event: &'static str) -> Self {
        Self { out, pid, event, item: None }
    }
}

impl<W: Write> Csv<'_, W> {
    fn line(&mut self, name: &'static str, value: impl fmt::Display) -> fmt::Result {
        write!(self.out, "{},{},", self.pid, self.event)?;
        match self.item {
            Some((list, item)) => write!(self.out, "{list},{item},")?,
            None => self.out.write_str(",,")?,
        }
        writeln!(self.out, "{name},{value}")
    }
}

impl<W: Write> Form for Csv<'_, W> {
    fn text(&mut self, name: &'static str, value: &str) -> fmt::Result {
        self.line(name, value)
    }

    fn figure(&mut self, name: &'static str, value: u64) -> fmt::Result {
        self.line(name, value)
    }

    fn begin(&mut self, _list: &'static str) -> fmt::Result {
        Ok(())
    }

    fn item(&mut self, list: &'static str, key: Key) -> fmt::Result {
        self.item = Some((list, key.value));
        Ok(())
    }

    fn end_item(&mut self) -> fmt::Result {
        self.item = None;
        Ok(())
    }

    fn end(&mut self) -> fmt::Result {
        Ok(())
    }
}

/// The element `hakmem`. Figures of the process are its attributes. Each item is an element, and
/// its figures are that element's attributes.
pub struct Xml<'a, W> {
    pub out: &'a mut W,
    /// True while the start tag of `hakmem` is open.
    pub open: bool,
    /// The name of the list that was begun last.
    pub list: &'static str,
}

impl<W: Write> Form for Xml<'_, W> {
    fn text(&mut self, name: &'static str, value: &str) -> fmt::Result {
        write!(self.out, " {name}=\"{value}\"")
    }

    fn figure(&mut self, name: &'static str, value: u64) -> fmt::Result {
        write!(self.out, " {name}=\"{value}\"")
    }

    fn begin(&mut self, list: &'static str) -> fmt::Result {
        if core::mem::replace(&mut self.open, false) {
            self.out.write_str(">\n")?;
        }
        self.list = list;
        writeln!(self.out, "<{list}>")
    }

    fn item(&mut self, _list: &'static str, key: Key) -> fmt::Result {
        write!(self.out, "<item {}=\"{}\"", key.name, key.value)
    }

    fn end_item(&mut self) -> fmt::Result {
        self.out.write_str("/>\n")
    }

    fn end(&mut self) -> fmt::Result {
        writeln!(self.out, "</{}>", self.list)
    }
}
