//! Links in Markdown: what is relative leads somewhere inside the workspace.

use std::collections::BTreeMap;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::Finding;
use crate::workspace::Workspace;

/// Every relative link or image leads to a file or folder of the workspace, and its `#fragment`, if
/// it has one, to a heading there.
pub(super) fn relative_links_resolve(workspace: &Workspace) -> anyhow::Result<Vec<Finding>> {
    let mut pages = BTreeMap::new();
    for file in workspace.files_with("md") {
        pages.insert(file, Page::read(&workspace.text(file)?));
    }
    let mut findings = Vec::new();
    for (&file, page) in &pages {
        for (line, link) in &page.links {
            let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => Some(file.to_owned()),
                path => resolve(file, path),
            };
            let leads_to = target.filter(|target| exists(workspace, target));
            let Some(target) = leads_to else {
                findings.push(Finding::new(file, *line, format!("{link} leads nowhere")));
                continue;
            };
            let headings = pages.get(target.as_str()).map(|page| &page.headings);
            let known = headings.is_none_or(|headings| headings.iter().any(|h| h == fragment));
            if !fragment.is_empty() && !known {
                let message = format!("{link}: there is no such heading in {target}");
                findings.push(Finding::new(file, *line, message));
            }
        }
    }
    Ok(findings)
}

/// Whether it is a file of the workspace, or a folder that holds one.
fn exists(workspace: &Workspace, target: &str) -> bool {
    let inside = |file: &String| {
        file.strip_prefix(target)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    target.is_empty() || workspace.files.iter().any(inside)
}

/// Where a link `path` in `file` leads, unless out of the workspace.
fn resolve(file: &str, path: &str) -> Option<String> {
    if path.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// What matters of a Markdown file.
#[derive(Debug, Default)]
struct Page {
    /// The relative links, each with its line.
    links: Vec<(usize, String)>,
    /// The headings as fragments name them.
    headings: Vec<String>,
}

impl Page {
    fn read(text: &str) -> Self {
        let mut page = Page::default();
        let mut heading: Option<String> = None;
        for (event, place) in Parser::new_ext(text, Options::all()).into_offset_iter() {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. })
                    if !has_scheme(&dest_url) =>
                {
                    let line = 1 + text[..place.start].matches('\n').count();
                    page.links.push((line, dest_url.into_string()));
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                Event::End(TagEnd::Heading(_)) => {
                    page.headings.extend(heading.take().map(|h| fragment(&h)));
                }
                _ => {}
            }
        }
        page
    }
}

/// Whether a link is an absolute one: `https:`, `mailto:` and the like.
fn has_scheme(link: &str) -> bool {
    link.split_once(':').is_some_and(|(scheme, rest)| {
        scheme.chars().all(|c| c.is_ascii_alphanumeric()) && !rest.starts_with(':')
    })
}

/// A heading as fragments name it: letters and digits in lower case, spaces as hyphens.
fn fragment(heading: &str) -> String {
    heading
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            '-' | '_' => Some(c),
            c if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::planted::find;
    use super::{fragment, relative_links_resolve};

    const FILE: &str = "crates/spanset/README.md";

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let text = "# Spans\n\n[there](src/lib.rs) [folder](src/) [root](../..) [up](../../README.md#a-heading)\n\
                    [far](https://example.org/x) [mail](mailto:a@example.org) [here](#spans)\n\n\
                    [a](src/gone.rs), ![b](plot.png),\n[c](../../../README.md), [d](/README.md), [e][ref],\n\
                    [f](Span::point)\n\n```text\n[not](a link)\n```\n\n[ref]: sr\n";
        let found = find(relative_links_resolve, &[(FILE, text)]);
        let nowhere = |line, link| format!("{FILE}:{line}: {link} leads nowhere");
        assert_eq!(
            found,
            [
                nowhere(6, "src/gone.rs"),
                nowhere(6, "plot.png"),
                nowhere(7, "../../../README.md"),
                nowhere(7, "/README.md"),
                nowhere(7, "sr"),
                nowhere(8, "Span::point"),
            ]
        );
    }

    #[test]
    fn a_fragment_without_its_heading_is_found() {
        let text = "# Spans\n\n[a](#span) [b](../../README.md#another) [c](#spans)\n";
        assert_eq!(
            find(relative_links_resolve, &[(FILE, text)]),
            [
                format!("{FILE}:3: #span: there is no such heading in {FILE}"),
                format!("{FILE}:3: ../../README.md#another: there is no such heading in README.md"),
            ]
        );
    }

    #[test]
    fn a_fragment_is_the_heading_in_lower_case_without_punctuation() {
        assert_eq!(
            fragment("Why `xtask ci` (and not make)?"),
            "why-xtask-ci-and-not-make"
        );
    }
}
