//! Tools for files, and the directory that no path can leave.

mod ignored;
mod list;
mod open;
mod read;
mod root;
mod search;
mod view_image;
mod walk;
mod write;

pub(crate) use list::ListFiles;
pub(crate) use read::ReadFile;
pub(crate) use root::{Root, WorkspacePath};
pub(crate) use search::SearchFiles;
pub(crate) use view_image::ViewImage;
pub(crate) use write::{Existing, Staged};
