//! Bad sources beside good ones, children that do not want to go, and configurations that are broken:
//! none of it reaches a call that has nothing to do with it.

mod comings;
mod orphans;
mod reload;
mod sources;
mod storm;
mod tasks;
