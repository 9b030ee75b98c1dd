//! Pieces of HTML. Whatever text comes into the page comes through here.

use serde_json::Value;

/// A text that means nothing but itself.
pub(super) fn text(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            other => html.push(other),
        }
    }
    html
}

pub(super) fn code(of: &str) -> String {
    format!("<code>{}</code>", text(of))
}

/// A text in which what stands in backticks is code, as descriptions have it.
pub(super) fn inline(description: &str) -> String {
    let pieces = description.split('`').enumerate();
    pieces.map(|(n, piece)| if n % 2 == 1 { code(piece) } else { text(piece) }).collect()
}

/// A text of paragraphs.
pub(super) fn paragraphs(description: &str) -> String {
    let pieces = description.split("\n\n").filter(|piece| !piece.trim().is_empty());
    pieces.map(paragraph).collect()
}

fn paragraph(piece: &str) -> String {
    format!("<p>{}</p>\n", inline(piece))
}

/// A table whose rows are named by their first cells. The cells are HTML already.
pub(super) fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let heads: String = heads.iter().map(|head| column(head)).collect();
    let rows: String = rows.iter().map(|cells| row(cells)).collect();
    format!("<table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n")
}

fn column(head: &str) -> String {
    format!("<th scope=\"col\">{}</th>", text(head))
}

fn row(cells: &[String]) -> String {
    let cell = |(n, cell): (usize, &String)| match n {
        0 => format!("<th scope=\"row\">{cell}</th>"),
        _ => format!("<td>{cell}</td>"),
    };
    let cells: String = cells.iter().enumerate().map(cell).collect();
    format!("<tr>{cells}</tr>\n")
}

/// An example, which is shown to who asks for it.
pub(super) fn example(of: &str, value: &Value) -> String {
    let shown = match value.as_str() {
        Some(lines) => lines.to_owned(),
        None => serde_json::to_string_pretty(value).unwrap_or_default(),
    };
    format!(
        "<details>\n<summary>Example: {}</summary>\n<pre>{}</pre>\n</details>\n",
        code(of),
        text(&shown),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_means_nothing_but_itself() {
        let odd = "<a href=\"x\">&'`<b>`";
        assert_eq!(inline(odd), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;<code>&lt;b&gt;</code>");
        assert_eq!(paragraphs("One\n\n\n\nTwo"), "<p>One</p>\n<p>Two</p>\n");
        let row = vec!["a".to_owned(), "b".to_owned()];
        let expected = "<tr><th scope=\"row\">a</th><td>b</td></tr>";
        assert!(table(&["A", "B"], &[row]).contains(expected));
        assert_eq!(table(&["A"], &[]), "");
    }
}
