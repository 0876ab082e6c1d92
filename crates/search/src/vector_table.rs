//! Tables of vectors that are compared with a query: one for each segment of an index.

use crate::quantized_vector::{QuantizedVector, dot_product, small_number, sum};

/// Vectors of neighbouring tools, one after the other.
#[derive(Debug, Default)]
pub struct VectorTable {
    dimensions: usize,
    bytes: Vec<i8>,
    /// Scale of each row; 0 for a tool without a vector.
    scales: Vec<f32>,
    /// Number of tools with a vector.
    known: usize,
}

impl VectorTable {
    /// Creates a table of vectors with a number of dimensions, with room for a number of tools.
    pub fn with_capacity(dimensions: usize, tools: usize) -> Self {
        let (bytes, scales) = (Vec::with_capacity(tools * dimensions), Vec::with_capacity(tools));
        Self { dimensions, bytes, scales, known: 0 }
    }

    /// Appends the vector of the next tool. One of other dimensions counts as none.
    pub fn push(&mut self, vector: Option<&QuantizedVector>) {
        let vector = vector.filter(|vector| vector.dimensions() == self.dimensions);
        match vector {
            Some(vector) => self.bytes.extend_from_slice(&vector.bytes),
            None => self.bytes.resize(self.bytes.len() + self.dimensions, 0),
        }
        self.scales.push(vector.map_or(0.0, |vector| vector.scale));
        self.known += usize::from(vector.is_some());
    }

    /// Returns true if every tool has a vector.
    pub fn is_complete(&self) -> bool {
        self.known == self.scales.len()
    }

    /// Returns the memory that it takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + size_of::<f32>() * self.scales.capacity()
    }

    /// Appends the cosine of the angle between a query and each tool; 0 for a tool without vector.
    fn push_cosines(&self, query: &QuantizedVector, cosines: &mut Vec<f32>) {
        if self.dimensions == 0 {
            return cosines.resize(cosines.len() + self.scales.len(), 0.0);
        }
        let rows = self.bytes.chunks_exact(self.dimensions).zip(&self.scales);
        let cosine =
            |(row, scale): (&[i8], &f32)| dot_product(row, &query.bytes) * scale * query.scale;
        cosines.extend(rows.map(cosine));
    }

    fn cosine_at(&self, row: usize, query: &QuantizedVector) -> f32 {
        let begin = row * self.dimensions;
        let numbers = self.bytes.get(begin..begin + self.dimensions).unwrap_or_default();
        let scale = self.scales.get(row).copied().unwrap_or(0.0);
        dot_product(numbers, &query.bytes) * scale * query.scale
    }
}

/// The tables of all tools of an index, in its order.
#[derive(Debug, Default)]
pub(crate) struct VectorTables<'a> {
    tables: Vec<&'a VectorTable>,
    /// Position behind the last tool of each table.
    ends: Vec<usize>,
}

impl<'a> FromIterator<&'a VectorTable> for VectorTables<'a> {
    fn from_iter<I: IntoIterator<Item = &'a VectorTable>>(tables: I) -> Self {
        let (mut all, mut end) = (Self::default(), 0);
        for table in tables {
            end += table.scales.len();
            all.tables.push(table);
            all.ends.push(end);
        }
        all
    }
}

impl VectorTables<'_> {
    /// Returns the cosine of the angle between a query and each tool; for a tool without vector the
    /// mean of the others, which tells nothing for or against it.
    pub(crate) fn cosines(&self, query: &QuantizedVector) -> Vec<f32> {
        let mut cosines = Vec::with_capacity(self.ends.last().copied().unwrap_or(0));
        for table in &self.tables {
            table.push_cosines(query, &mut cosines);
        }
        let known: usize = self.tables.iter().map(|table| table.known).sum();
        if known > 0 && known < cosines.len() {
            let mean = sum(&cosines) / small_number(known);
            let scales = self.tables.iter().flat_map(|table| &table.scales);
            let rows = cosines.iter_mut().zip(scales);
            rows.filter(|(_, scale)| **scale <= 0.0).for_each(|(cosine, _)| *cosine = mean);
        }
        cosines
    }

    /// Returns the cosine of the angle between a query and one tool; 0 for a tool without vector.
    pub(crate) fn cosine_at(&self, position: usize, query: &QuantizedVector) -> f32 {
        let number = self.ends.partition_point(|end| *end <= position);
        let begin = number.checked_sub(1).and_then(|before| self.ends.get(before));
        let row = position - begin.copied().unwrap_or(0);
        self.tables.get(number).map_or(0.0, |table| table.cosine_at(row, query))
    }
}

#[cfg(test)]
mod tests {
    use super::{VectorTable, VectorTables};
    use crate::quantized_vector::QuantizedVector;

    fn vector(numbers: [f32; 2]) -> QuantizedVector {
        QuantizedVector::from_numbers(&numbers).unwrap()
    }

    fn table(dimensions: usize, rows: &[Option<[f32; 2]>]) -> VectorTable {
        let mut table = VectorTable::with_capacity(dimensions, rows.len());
        for row in rows {
            table.push(row.map(vector).as_ref());
        }
        table
    }

    #[test]
    fn several_tables_are_compared_as_one() {
        let rows = [Some([1.0, 0.0]), None, Some([0.0, 1.0]), Some([-1.0, 0.0]), None];
        let whole = [table(2, &rows)];
        let (first, last) = rows.split_at(2);
        // A table from the time before there was any vector has no dimensions.
        let parts = [table(2, first), table(2, &[]), table(2, last), table(0, &[None])];
        let query = vector([1.0, 0.5]);
        let one = VectorTables::from_iter(&whole).cosines(&query);
        let several = VectorTables::from_iter(&parts).cosines(&query);
        // The mean of the known ones is that of all tables.
        assert_eq!(several.get(..5).unwrap(), one);
        assert_eq!(several.get(5), several.get(1));
        assert!(one[0] > one[1] && one[1] > one[3], "{one:?}");
        let tables = VectorTables::from_iter(&parts);
        for (position, expected) in [(0, one[0]), (1, 0.0), (2, one[2]), (3, one[3]), (5, 0.0)] {
            let found = tables.cosine_at(position, &query);
            assert!((found - expected).abs() < f32::EPSILON, "{position}: {found}");
        }
        assert!(!parts[0].is_complete() && table(2, &rows[2..4]).is_complete());
    }
}
