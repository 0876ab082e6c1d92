//! Tests that an index of many segments which follows changes ranks as one segment of the visible
//! tools does, bit for bit, and that this fails with any statistic of hidden tools.

use std::collections::HashMap;
use std::sync::Arc;

use super::naive_ranking::{self, StatisticTools};
use crate::{
    AnalyzedTool, IndexSegment, QuantizedVector, QueryVectors, RankingInputs, RankingWeights,
    SearchHit, SearchIndex, SentenceVectors, ToolText, VectorTable,
};

const WORDS: [&str; 24] = [
    "file",
    "read",
    "weather",
    "city",
    "getCity",
    "send_mail",
    "mail",
    "issue",
    "calendar",
    "event",
    "天气",
    "42",
    "repository",
    "delete",
    "folder",
    "stock",
    "price",
    "translate",
    "zorblatin",
    "kryptonix",
    "invoice",
    "backup",
    "cluster",
    "route",
];
/// Queries with one word and several, clauses, typing errors, and words that only vectors know.
const QUERIES: [&str; 10] = [
    "read file",
    "mail",
    "delete the folder, then send mail and translate",
    "zorblatim kryptoniks",
    "snowstorm tomorrow",
    "weather city 天气 42",
    "calender events",
    "stock price of a city; backup cluster",
    "repository",
    "invoice route invoice",
];
/// Number of sequences, and of changes in each.
const SEQUENCES: u64 = 12;
const CHANGES: usize = 25;

/// Numbers that look random and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        usize::try_from(self.0 >> 33).unwrap() % bound.max(1)
    }

    fn words(&mut self, most: usize) -> String {
        let number = self.below(most + 1);
        let words: Vec<_> = (0..number).map(|_| WORDS[self.below(WORDS.len())]).collect();
        words.join(" ")
    }
}

/// A tool of a catalog, which a caller may see or not.
struct CatalogTool {
    id: usize,
    analyzed: Arc<AnalyzedTool>,
    sentence: Option<QuantizedVector>,
    is_visible: bool,
}

impl CatalogTool {
    /// Hidden tools have words of their own beside others, and longer texts.
    fn random(id: usize, numbers: &mut Numbers) -> Self {
        let is_visible = numbers.below(3) > 0;
        let (name, mut description) = (numbers.words(3), numbers.words(12));
        if !is_visible {
            description += &numbers.words(40);
        }
        let text = ToolText { name: &name, description: &description, ..ToolText::default() };
        let vector = |numbers: &mut Numbers| {
            let mut number = || f32::from(i8::try_from(numbers.below(200)).unwrap_or(-90)) + 0.5;
            QuantizedVector::from_numbers(&[number(), number(), number()])
        };
        let sentence = (numbers.below(4) > 0).then(|| vector(numbers)).flatten();
        Self { id, analyzed: Arc::new(AnalyzedTool::from_text(&text)), sentence, is_visible }
    }
}

/// Tools that change one at a time.
struct Changes {
    numbers: Numbers,
    tools: Vec<CatalogTool>,
    next_id: usize,
}

impl Changes {
    fn new(seed: u64) -> Self {
        let mut changes = Self { numbers: Numbers(seed), tools: Vec::new(), next_id: 0 };
        for _ in 0..60 {
            changes.add();
        }
        changes
    }

    fn add(&mut self) {
        let place = self.numbers.below(self.tools.len() + 1);
        let tool = CatalogTool::random(self.next_id, &mut self.numbers);
        self.next_id += 1;
        self.tools.insert(place, tool);
    }

    /// Adds, removes or changes a tool, or changes the right to see it.
    fn change(&mut self) {
        let place = self.numbers.below(self.tools.len());
        match self.numbers.below(4) {
            0 => self.add(),
            1 if self.tools.len() > 1 => drop(self.tools.remove(place)),
            2 => self.tools[place].is_visible ^= true,
            _ => {
                self.tools[place] = CatalogTool::random(self.next_id, &mut self.numbers);
                self.next_id += 1;
            }
        }
    }

    fn visible(&self) -> impl Iterator<Item = &CatalogTool> {
        self.tools.iter().filter(|tool| tool.is_visible)
    }
}

/// Segments by the tools that they index: runs that end behind tools whose id is a multiple of five.
#[derive(Default)]
struct SharedSegments {
    known: HashMap<Vec<usize>, Arc<IndexSegment>>,
    built: usize,
}

impl SharedSegments {
    fn of(&mut self, changes: &Changes) -> Vec<Arc<IndexSegment>> {
        let visible: Vec<&CatalogTool> = changes.visible().collect();
        let runs = visible.chunk_by(|one, _| !one.id.is_multiple_of(5));
        let segment = |run: &[&CatalogTool]| {
            let ids = run.iter().map(|tool| tool.id).collect();
            let build = || {
                self.built += 1;
                let tools: Vec<_> = run.iter().map(|tool| Arc::clone(&tool.analyzed)).collect();
                Arc::new(IndexSegment::build(&tools))
            };
            Arc::clone(self.known.entry(ids).or_insert_with(build))
        };
        runs.map(segment).collect()
    }
}

fn sentence_tables(changes: &Changes, tools_per_table: usize) -> Vec<Arc<VectorTable>> {
    let visible: Vec<&CatalogTool> = changes.visible().collect();
    let table = |tools: &[&CatalogTool]| {
        let mut table = VectorTable::with_capacity(3, tools.len());
        for tool in tools {
            table.push(tool.sentence.as_ref());
        }
        Arc::new(table)
    };
    visible.chunks(tools_per_table).map(table).collect()
}

/// Searches by words, with word vectors, and with a sentence model.
fn search_all(segments: &[Arc<IndexSegment>], tables: &[Arc<VectorTable>]) -> Vec<Vec<SearchHit>> {
    let weights = RankingWeights::default();
    let index = |weights| SearchIndex::with_weights(segments.iter().cloned(), weights);
    let (default, lexical) = (index(weights.clone()), index(weights.lexical_only()));
    let vector = |numbers: [f32; 3]| QuantizedVector::from_numbers(&numbers);
    let texts = [vector([1.0, 0.2, -0.4]), vector([0.1, -1.0, 0.3]), vector([-0.7, 0.6, 0.5])];
    let vectors = [QueryVectors::from_texts(texts.into_iter().flatten())];
    let sentences = SentenceVectors { tools: tables, queries: &vectors };
    let search = |query: &&str| {
        let inputs = RankingInputs { sentences: Some(sentences), ..RankingInputs::default() };
        let with_model = default.search_with(&[query], inputs, 100);
        [lexical.search(&[query], 100), default.search(&[query], 100), with_model]
    };
    let mut found: Vec<_> = QUERIES.iter().flat_map(search).collect();
    found.push(default.search(&QUERIES, 100));
    found
}

#[test]
fn an_index_that_follows_changes_ranks_as_one_segment_of_the_visible_tools() {
    let (mut built, mut searched) = (0, 0);
    for seed in 0..SEQUENCES {
        let (mut changes, mut shared) = (Changes::new(seed), SharedSegments::default());
        for _ in 0..CHANGES {
            changes.change();
            let segments = shared.of(&changes);
            let tools: Vec<_> = changes.visible().map(|it| Arc::clone(&it.analyzed)).collect();
            let one = [Arc::new(IndexSegment::build(&tools))];
            let found = search_all(&segments, &sentence_tables(&changes, 7));
            let expected = search_all(&one, &sentence_tables(&changes, usize::MAX));
            // Scores are equal bit for bit, and so are positions and reasons.
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!(found, expected, "sequence {seed}");
            }
            searched += segments.len();
        }
        built += shared.built;
    }
    assert!(built * 3 < searched, "{built} of {searched} segments built");
}

/// Whether the scores of an index are those of the definition, with statistics of these tools.
fn follows(visible: &[Arc<AnalyzedTool>], statistics: StatisticTools<'_>) -> bool {
    let mut weights = RankingWeights::default().lexical_only();
    weights.clause_weight = 0.0;
    let index = SearchIndex::build_with(visible, weights.clone());
    // Words that are corrected are no part of the definition.
    let is_corrected = |query: &str| query.contains("kryptoniks") || query.contains("calender");
    QUERIES.iter().filter(|query| !is_corrected(query)).all(|query| {
        let expected = naive_ranking::scores(visible, statistics, query, &weights);
        let hits = index.search(&[query], 100);
        hits.iter().all(|hit| (hit.score - expected[hit.position]).abs() < 1e-5)
    })
}

#[test]
fn any_statistic_of_hidden_tools_changes_scores() {
    for seed in 0..SEQUENCES {
        let changes = Changes::new(seed);
        let all: Vec<_> = changes.tools.iter().map(|it| Arc::clone(&it.analyzed)).collect();
        let visible: Vec<_> = changes.visible().map(|it| Arc::clone(&it.analyzed)).collect();
        let own = StatisticTools::all_of(&visible);
        assert!(follows(&visible, own), "sequence {seed}");
        // Controls: one statistic of all tools, the hidden ones included.
        assert!(!follows(&visible, StatisticTools { number: &all, ..own }), "{seed}: number");
        assert!(!follows(&visible, StatisticTools { term_counts: &all, ..own }), "{seed}: terms");
        assert!(!follows(&visible, StatisticTools { lengths: &all, ..own }), "{seed}: lengths");
    }
}

#[test]
fn hidden_names_correct_nothing_and_hidden_vectors_move_no_mean() {
    let analyze =
        |name: &str| Arc::new(AnalyzedTool::from_text(&ToolText { name, ..ToolText::default() }));
    let segment = |names: &[&str]| {
        let tools: Vec<_> = names.iter().map(|name| analyze(name)).collect();
        Arc::new(IndexSegment::build(&tools))
    };
    let (visible, hidden) = (segment(&["read weather", "city mail"]), segment(&["zorblatin"]));
    let search = |segments: &[&Arc<IndexSegment>], query: &str| {
        let segments = segments.iter().map(|it| Arc::clone(it));
        SearchIndex::from_segments(segments).search(&[query], 9)
    };
    let lexical = |segments: &[&Arc<IndexSegment>], query: &str| {
        let segments = segments.iter().map(|it| Arc::clone(it));
        let weights = RankingWeights::default().lexical_only();
        SearchIndex::with_weights(segments, weights).search(&[query], 9)
    };
    assert_eq!(lexical(&[&visible], "zorblatim"), []);
    assert_eq!(lexical(&[&visible, &hidden], "zorblatim").len(), 1, "control");
    // The mean of the cosines is that of the view.
    let alone = search(&[&visible], "snowstorm");
    let more = segment(&["blizzard", "delete folder", "stock price"]);
    let both = search(&[&visible, &more], "snowstorm");
    let score = |hits: &[SearchHit]| hits.iter().find(|hit| hit.position == 0).map(|it| it.score);
    assert!(score(&alone).is_some() && score(&alone) != score(&both), "{alone:?} {both:?}");
}
