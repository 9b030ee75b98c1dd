//! Pages of all kinds and their Markdown.

use std::time::{Duration, Instant};

use super::*;

fn read(html: &str) -> String {
    convert(html, &"https://example.com/docs/page".parse().unwrap()).text
}

#[test]
fn a_page_becomes_its_title_and_its_text() {
    let html = "<!doctype html><html><head><title> A  page &amp; more </title>
        <style>p { color: red }</style><script>if (a < b) alert('<p>no</p>')</script></head>
        <body><nav><a href=/>Home</a></nav><h1>Head<em>ing</em></h1>
        <p>One,\n  two.<br>Three &lt;four&gt;.</p><p>Five</p><footer>No</footer></body></html>";
    let base = "https://example.com/".parse().unwrap();
    let expected = Markdown {
        title: "A page & more".to_owned(),
        text: "# Heading\n\nOne, two.\nThree <four>.\n\nFive".to_owned(),
    };
    assert_eq!(convert(html, &base), expected);
}

#[test]
fn links_are_absolute_and_only_to_other_pages() {
    let cases = [
        ("see <a href='../b?c#d'>this</a>.", "see [this](https://example.com/b?c#d)."),
        ("<a href='//x.org/é'> a <b>b</b> </a>c", "[a b](https://x.org/%C3%A9) c"),
        ("<a href=https://x.org><h2>T</h2><p>u</p></a>", "## [T\n\nu](https://x.org/)"),
        ("<a href='#part'>part</a>", "part"),
        ("<a href='javascript:alert(1)'>run</a>", "run"),
        ("<a href='data:text/html,x'>data</a>", "data"),
        ("<a href=/x><img src=a.png></a>end", "end"),
        ("<a href=/x><img alt='A picture'></a>", "[A picture](https://example.com/x)"),
        ("<a>none</a> <a href=''>empty</a>", "none empty"),
    ];
    for (html, expected) in cases {
        assert_eq!(read(html), expected, "{html}");
    }
}

#[test]
fn lists_quotes_and_code_become_markdown() {
    let cases = [
        ("<ul><li>a<li>b<ol><li>c</li><li>d</li></ol></ul>e", "- a\n- b\n  1. c\n  2. d\n\ne"),
        ("<ul><li><p>a</p><p>more</p></li><li></li></ul><p>b", "- a\n\n  more\n\nb"),
        ("<blockquote>a<p>b</p></blockquote>c", "> a\n\n> b\n\nc"),
        ("run <code>a  b</code>!", "run `a b`!"),
        (
            "x<pre><code>fn a() {\n    b\n}\n</code></pre>y",
            "x\n\n```\nfn a() {\n    b\n}\n```\n\ny",
        ),
        ("<pre><span>a</span><br>b", "```\na\nb\n```"),
        ("a<hr>b", "a\n\n---\n\nb"),
        ("<h1></h1><p>a", "a"),
    ];
    for (html, expected) in cases {
        assert_eq!(read(html), expected, "{html}");
    }
}

#[test]
fn a_row_of_a_table_is_one_line() {
    let html = "<table><tr><th>Name<th>Age</tr><tr><td><p>A</p><p>B</p><td></td></tr></table>end";
    assert_eq!(read(html), "| Name | Age |\n| --- | --- |\n| A B | |\n\nend");
}

#[test]
fn the_main_part_replaces_the_page_if_it_has_enough_text() {
    let long = "word ".repeat(50);
    let page = format!("<div>menu</div><main><p>{long}</p></main><div>advertisement</div>");
    assert_eq!(read(&page), long.trim());
    assert_eq!(read("<div>a</div><main></main><div>b</div>"), "a\n\nb");
}

#[test]
fn an_unclosed_menu_does_not_hide_the_page() {
    assert_eq!(read("<nav><ul><li>menu<main>page</main>"), "page");
    assert_eq!(read("<nav><nav>menu</nav>menu</nav>page"), "page");
}

#[test]
fn a_fragment_becomes_one_line() {
    assert_eq!(plain_text("a <strong>b</strong>\n &lt;c&gt; &#39;d&#39;"), "a b <c> 'd'");
}

#[test]
fn a_malicious_page_is_converted_in_linear_time() {
    let attributes = (0..60_000).map(|n| format!(" a{n}=1")).collect::<Vec<_>>().concat();
    let pages = [
        "<div>".repeat(200_000),
        "<b><i>".repeat(100_000),
        (0..40_000).map(|n| format!("<b a={n}>")).collect::<Vec<_>>().concat()
            + &"<p>x".repeat(40_000),
        "<ul><li>".repeat(100_000),
        "<blockquote><br>a".repeat(50_000),
        "<table><tr><td>".repeat(60_000),
        "<a href=b>c".repeat(80_000),
        format!("<p{attributes}>"),
        "<".repeat(1_000_000),
        "&".repeat(1_000_000),
        "<!--".repeat(200_000),
        "<title>".repeat(150_000),
        "<pre>".repeat(200_000),
    ];
    for page in pages {
        let started = Instant::now();
        let text = read(&page);
        let start: String = page.chars().take(20).collect();
        assert!(started.elapsed() < Duration::from_secs(30), "{start}: {:?}", started.elapsed());
        assert!(text.len() <= 6 * 1024 * 1024, "{start}: {} bytes", text.len());
    }
}
