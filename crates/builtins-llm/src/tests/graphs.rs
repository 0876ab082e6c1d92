//! Tests of the inputs and outputs that a model may have.

use crate::embedding_model::{InstalledModel, install_model};
use crate::model_worker::describe_error;
use crate::tests::sandboxes;
use crate::tests::small_model::{Costs, Shape, WIDTH, write};
use word_vectors::cosine_similarity;

async fn installed(shape: Shape) -> Result<InstalledModel, String> {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(&from.path().join("small-export"), shape);
    let found = install_model(&from.path().join("small-export"), to.path(), &sandboxes()).await?;
    found.load_model().await.map_err(describe_error)?;
    Ok(found)
}

#[tokio::test]
async fn the_names_of_public_exports_and_our_own_lead_to_one_vector() {
    let pooled = |output| Shape { output, is_pooled: true, ..Shape::PUBLIC };
    let own = Shape {
        ids: "ids",
        mask: Some(("mask", true)),
        types: None,
        output: "emb",
        is_pooled: true,
        costs: Costs::Nothing,
    };
    let bare = Shape { mask: None, types: None, ..Shape::PUBLIC };
    let shapes = [
        Shape::PUBLIC,
        Shape { types: None, ..Shape::PUBLIC },
        Shape { output: "token_embeddings", ..Shape::PUBLIC },
        bare,
        pooled("sentence_embedding"),
        pooled("pooler_output"),
        own,
        Shape::COSTLY,
    ];
    // Computed by hand: the sum of [CLS], cat, [SEP], scaled to length 1.
    let length = (1.0_f64 + 0.01 + 0.0004).sqrt();
    for shape in shapes {
        let found = installed(shape).await.unwrap_or_else(|why| panic!("{shape:?}: {why}"));
        assert_eq!(found.facts().label(), "small-export, 4 dimensions");
        let vector = found.embed_texts("", &["cat"]).await.unwrap().remove(0);
        assert_eq!(vector.len(), WIDTH);
        for (got, wanted) in vector.iter().zip([1.0, 0.1, 0.02, 0.0]) {
            assert!((f64::from(*got) - wanted / length).abs() < 1e-6, "{shape:?}: {vector:?}");
        }
    }
}

#[tokio::test]
async fn other_names_are_refused_with_what_the_file_has_and_what_is_needed() {
    let wrong = [
        (Shape { ids: "tokens", ..Shape::PUBLIC }, "its inputs are `tokens`, "),
        (Shape { mask: Some(("position_ids", false)), ..Shape::PUBLIC }, "`position_ids`"),
        (Shape { output: "logits", ..Shape::PUBLIC }, "its outputs are `logits`"),
    ];
    for (shape, has) in wrong {
        let why = installed(shape).await.unwrap_err();
        for words in
            [has, "`input_ids` (or `ids`)", "`attention_mask`", "`last_hidden_state`", "model.onnx"]
        {
            assert!(why.contains(words), "{words}: {why}");
        }
    }
    // A vector per token under a name that promises one per text.
    let why = installed(Shape { output: "sentence_embedding", ..Shape::PUBLIC }).await.unwrap_err();
    assert!(why.contains("an unexpected shape"), "{why}");
}

#[tokio::test]
async fn a_model_that_ends_the_process_that_tries_it_is_not_installed() {
    let why = installed(Shape { costs: Costs::AtLoad, ..Shape::PUBLIC }).await.unwrap_err();
    assert!(
        why.ends_with("the worker that tested it ended: it exceeded its memory limit"),
        "{why}"
    );
}

#[tokio::test]
async fn a_repository_of_a_hub_is_installed_as_it_lies_and_replaces_what_was_there() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let repository = from.path().join("org-model");
    write(&repository.join("onnx"), Shape::PUBLIC);
    std::fs::rename(repository.join("onnx/tokenizer.json"), repository.join("tokenizer.json"))
        .unwrap();
    // Folder of earlier versions, without a facts file.
    write(&to.path().join("all-MiniLM-L6-v2"), Shape::PUBLIC);
    let earlier = InstalledModel::locate_model(to.path(), &sandboxes()).unwrap();
    assert_eq!(earlier.facts().label(), "all-MiniLM-L6-v2, 384 dimensions");
    assert!(describe_error(earlier.load_model().await.unwrap_err()).contains("the model has 4"));
    for _ in 0..2 {
        let found = install_model(&repository, to.path(), &sandboxes()).await.unwrap();
        assert_eq!(found.facts().name, "org-model");
        let vectors = found.embed_texts("", &["a cat", "kitten"]).await.unwrap();
        assert!(cosine_similarity(&vectors[0], &vectors[1]) > 0.9);
    }
    let left: Vec<_> =
        std::fs::read_dir(to.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, ["embedding"]);
}

#[tokio::test]
async fn a_name_in_the_facts_is_a_name_alone() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(from.path(), Shape::PUBLIC);
    let found = install_model(from.path(), to.path(), &sandboxes()).await.unwrap();
    let lie = r#"{"name": "x. Ignore\nall <b>", "dimensions": 4}"#;
    std::fs::write(found.folder().join("model.json"), lie).unwrap();
    assert_eq!(
        InstalledModel::locate_model(to.path(), &sandboxes()).unwrap().facts().label(),
        "x.Ignoreallb, 4 dimensions"
    );
}
