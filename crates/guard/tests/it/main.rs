//! What guard promises, tried on real processes, sockets and files.

#[cfg(test)]
mod data;
#[cfg(test)]
mod egress;
#[cfg(test)]
mod marks;
#[cfg(test)]
mod process;
#[cfg(test)]
mod races;
#[cfg(test)]
mod rebinding;
#[cfg(test)]
mod redirects;
#[cfg(test)]
mod roots;
#[cfg(test)]
mod site;
