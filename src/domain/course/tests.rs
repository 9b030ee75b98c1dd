//! Tests of the course parser.

use super::*;

const PLAIN: &str = "\u{feff}Course Title:  Computer   Use with Claude
Course Link: https://example.com/computer-use
Course instructor: Ada Lovelace

What you will learn.
Lesson 0: Introduction
Lesson Link: https://example.com/computer-use/0
Welcome.
Lesson Link: https://example.com/not-a-link-here
lesson 4:
What is in it: much.
";

fn lesson(number: i32, title: &str, link: Option<&str>, text: &str) -> Lesson {
    let (title, link) = (title.to_owned(), link.map(str::to_owned));
    Lesson { number, title, link, text: text.to_owned() }
}

fn plain() -> Course {
    let welcome = "Welcome.\nLesson Link: https://example.com/not-a-link-here\n";
    let first = Some("https://example.com/computer-use/0");
    Course {
        title: "Computer Use with Claude".to_owned(),
        link: Some("https://example.com/computer-use".to_owned()),
        instructor: Some("Ada Lovelace".to_owned()),
        introduction: "\nWhat you will learn.\n".to_owned(),
        lessons: vec![
            lesson(0, "Introduction", first, welcome),
            lesson(4, "Lesson 4", None, "What is in it: much.\n"),
        ],
    }
}

#[test]
fn a_plain_text_is_a_course_whatever_its_declared_format() {
    assert_eq!(Course::read(PLAIN, Form::Text), Ok(plain()));
    assert_eq!(Course::read(PLAIN, Form::Markdown), Ok(plain()));
}

#[test]
fn passages_name_their_lessons() {
    let passage = |lesson, text: &str| Passage { lesson, text: text.to_owned() };
    let expected = [
        passage(None, "What you will learn."),
        passage(Some(0), "Welcome. Lesson Link: https://example.com/not-a-link-here"),
        passage(Some(4), "What is in it: much."),
    ];
    assert_eq!(plain().passages().unwrap(), expected);
}

#[test]
fn markdown_headings_are_the_course_and_its_lessons() {
    let text = "# Computer Use\n\nCourse Instructor: Ada\n\n## [First steps](https://example.com/1)\n\
                Look.\n\n### Deeper\n\n```sh\n# no lesson\n```\n## Lesson 7: Tools ##\nUse.\n# Last\n";
    let course = Course::read(text, Form::Markdown).unwrap();
    let first = "Look.\n\n### Deeper\n\n```sh\n# no lesson\n```\n";
    let expected = [
        lesson(1, "First steps", Some("https://example.com/1"), first),
        lesson(7, "Tools", None, "Use.\n"),
        lesson(8, "Last", None, ""),
    ];
    assert_eq!((&*course.title, course.instructor.as_deref()), ("Computer Use", Some("Ada")));
    assert_eq!(course.lessons, expected);
}

#[test]
fn a_text_that_is_not_a_course_is_refused_with_its_line() {
    let long = format!("Course Title: {}", "x".repeat(301));
    for (text, expected) in [
        ("", BadCourse::NoTitle),
        ("Lesson 1: One\nText.", BadCourse::NoTitle),
        ("Course Title:", BadCourse::Title { line: 1 }),
        (&long, BadCourse::Title { line: 1 }),
        ("Course Title: A\nCourse Link: javascript:alert(1)", BadCourse::Link { line: 2 }),
        ("Course Title: A\nCourse Link: https://a b", BadCourse::Link { line: 2 }),
        ("Course Title: A\nLesson 1: B\nLesson 1: C", BadCourse::Number { line: 3 }),
        ("Course Title: A\nLesson 99999999999: B", BadCourse::Number { line: 2 }),
        ("Course Title: A\n \n", BadCourse::Empty),
    ] {
        assert_eq!(Course::read(text, Form::Text), Err(expected), "{text}");
    }
    let lessons: Vec<String> = (0..=MAX_LESSONS).map(|n| format!("Lesson {n}: L")).collect();
    let many = format!("Course Title: A\n{}", lessons.join("\n"));
    assert_eq!(Course::read(&many, Form::Text), Err(BadCourse::TooLarge));
}

#[test]
fn a_title_has_no_control_characters() {
    let course = Course::read("Course Title: A \u{1b}[2J\tB\u{7}\nText.", Form::Text).unwrap();
    assert_eq!(course.title, "A [2J B");
}
