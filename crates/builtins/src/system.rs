//! Tools that tell about the system, and read and write its files.

pub(crate) mod current_date;
pub(crate) mod current_datetime;
pub(crate) mod current_time;
pub(crate) mod files;
pub(crate) mod list_directory;
pub(crate) mod read_file;
pub(crate) mod write_file;

#[cfg(test)]
mod tests;
