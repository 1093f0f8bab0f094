//! Writes nodes as text: elements with what is below them, as `xmllint --xpath` does; those of JSON
//! as the values that they are.

use super::fragment::{Fragment, FragmentKind, Node};
use crate::export::{escape, is_special_in_attribute, is_special_in_text};
use crate::format::DocumentFormat;

/// Appends a node: an element or document as XML, an attribute with its name and quotes, text with
/// references where it needs them. Nodes of a document of JSON as JSON.
pub fn write_node(fragment: &Fragment, node: Node, bytes: &mut Vec<u8>) {
    if fragment.format() == DocumentFormat::Json {
        return crate::json::write_node(fragment, node, bytes);
    }
    // Elements whose end tags are to come, and where they end.
    let mut open: Vec<(Node, Node)> = Vec::new();
    let mut at = node;
    let end = fragment.end(node).max(node + 1);
    while at < end {
        while let Some(&(element, its_end)) = open.last()
            && its_end <= at
        {
            write_end(fragment, element, bytes);
            open.pop();
        }
        match fragment.kind(at) {
            FragmentKind::Document => {}
            FragmentKind::Element => {
                bytes.push(b'<');
                bytes.extend_from_slice(fragment.name(at).written().as_bytes());
                for beside in fragment.beside(at) {
                    bytes.push(b' ');
                    write_leaf(fragment, beside, bytes);
                }
                let first = fragment.children(at).next();
                bytes.extend_from_slice(if first.is_some() { b">" } else { b"/>" });
                if first.is_some() {
                    open.push((at, fragment.end(at)));
                }
                at = first.unwrap_or(fragment.end(at));
                continue;
            }
            _ => write_leaf(fragment, at, bytes),
        }
        at += 1;
    }
    while let Some((element, _)) = open.pop() {
        write_end(fragment, element, bytes);
    }
}

fn write_end(fragment: &Fragment, element: Node, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(b"</");
    bytes.extend_from_slice(fragment.name(element).written().as_bytes());
    bytes.push(b'>');
}

/// A node without nodes below it.
fn write_leaf(fragment: &Fragment, node: Node, bytes: &mut Vec<u8>) {
    let (name, text) = (fragment.name(node).written(), fragment.own_text(node).as_bytes());
    let value = |name: &str, bytes: &mut Vec<u8>| {
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(b"=\"");
        escape(text, is_special_in_attribute, bytes);
        bytes.push(b'"');
    };
    match fragment.kind(node) {
        FragmentKind::Attribute => value(&name, bytes),
        FragmentKind::Namespace if name.is_empty() => value("xmlns", bytes),
        FragmentKind::Namespace => value(&format!("xmlns:{name}"), bytes),
        FragmentKind::Comment => {
            bytes.extend_from_slice(b"<!--");
            bytes.extend_from_slice(text);
            bytes.extend_from_slice(b"-->");
        }
        FragmentKind::Instruction => {
            bytes.extend_from_slice(b"<?");
            bytes.extend_from_slice(name.as_bytes());
            if !text.is_empty() {
                bytes.push(b' ');
            }
            bytes.extend_from_slice(text);
            bytes.extend_from_slice(b"?>");
        }
        _ => escape(text, is_special_in_text, bytes),
    }
}
