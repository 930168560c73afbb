//! The workspace as it lies on disk: its files, and what cargo knows of its packages.

use std::path::{Path, PathBuf};

use anyhow::Context;
use cargo_metadata::{Metadata, MetadataCommand, Package, TargetKind};
use ignore::WalkBuilder;

/// The workspace as it lies on disk.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// All files that are not ignored, relative to the root, with `/`, sorted.
    pub(crate) files: Vec<String>,
    metadata: Metadata,
}

/// The root of the workspace that this program was built from.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

impl Workspace {
    /// Looks at the workspace at `root`. Writes nothing.
    ///
    /// # Errors
    ///
    /// If a manifest is unsound or a folder cannot be read.
    pub(crate) fn load(root: &Path) -> anyhow::Result<Self> {
        // Without dependencies, cargo needs no lock file and no network.
        let metadata = MetadataCommand::new()
            .manifest_path(root.join("Cargo.toml"))
            .no_deps()
            .exec()?;
        let mut files = Vec::new();
        let walk = WalkBuilder::new(root)
            .hidden(false)
            .require_git(false)
            .parents(false)
            .git_global(false)
            .filter_entry(|entry| entry.file_name() != ".git")
            .build();
        for entry in walk {
            let entry = entry?;
            if entry.file_type().is_some_and(|kind| !kind.is_dir()) {
                files.push(relative(root, entry.path())?);
            }
        }
        files.sort();
        Ok(Self {
            root: root.to_owned(),
            files,
            metadata,
        })
    }

    /// The packages of the workspace, by name.
    pub(crate) fn packages(&self) -> Vec<&Package> {
        let mut packages = self.metadata.workspace_packages();
        packages.sort_by_key(|package| &package.name);
        packages
    }

    /// The examples, as (package, example).
    pub(crate) fn examples(&self) -> Vec<(&str, &str)> {
        let mut examples: Vec<_> = self
            .packages()
            .into_iter()
            .flat_map(|package| package.targets.iter().map(move |target| (package, target)))
            .filter(|(_, target)| target.is_kind(TargetKind::Example))
            .map(|(package, target)| (package.name.as_str(), target.name.as_str()))
            .collect();
        examples.sort_unstable();
        examples
    }

    /// The folder of build output.
    pub(crate) fn target(&self) -> &Path {
        self.metadata.target_directory.as_std_path()
    }

    /// The files with this extension.
    pub(crate) fn files_with<'a>(&'a self, extension: &'a str) -> impl Iterator<Item = &'a str> {
        self.files
            .iter()
            .map(String::as_str)
            .filter(move |file| Path::new(file).extension().is_some_and(|e| e == extension))
    }

    /// The text of a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is not UTF-8.
    pub(crate) fn text(&self, file: &str) -> anyhow::Result<String> {
        std::fs::read_to_string(self.root.join(file)).with_context(|| format!("cannot read {file}"))
    }

    /// `path` relative to the root, with `/`.
    ///
    /// # Errors
    ///
    /// If it lies outside, or is not UTF-8.
    pub(crate) fn relative(&self, path: &Path) -> anyhow::Result<String> {
        relative(&self.root, path)
    }
}

fn relative(root: &Path, path: &Path) -> anyhow::Result<String> {
    let inside = path
        .strip_prefix(root)
        .with_context(|| format!("{} lies outside of the workspace", path.display()))?;
    let parts: Option<Vec<_>> = inside.iter().map(|part| part.to_str()).collect();
    let parts = parts.with_context(|| format!("{} is not UTF-8", path.display()))?;
    Ok(parts.join("/"))
}
