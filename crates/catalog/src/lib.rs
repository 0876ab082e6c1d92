//! Shelves of offers to one numbered catalog, or problems. Pure.
