//! Plugins as a whole: folders, versions, processes, and what hostile ones come to.

mod calls;
mod hostile;
mod reload;
mod speed;
mod stage;
