//! Tools for date, time and files of the system.

pub(crate) mod current_date;
pub(crate) mod current_datetime;
pub(crate) mod current_time;
pub(crate) mod file_roots;
pub(crate) mod list_directory;
pub(crate) mod read_file;
pub(crate) mod write_file;

#[cfg(test)]
mod tests;
