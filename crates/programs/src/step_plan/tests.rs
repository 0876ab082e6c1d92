use serde_json::{Map, Value, json};

use super::{ProgramStep, plan_waves};

fn planned(steps: Value) -> Vec<ProgramStep> {
    serde_json::from_value(steps).unwrap()
}

fn order(steps: Value) -> Result<Vec<Vec<String>>, String> {
    let steps = planned(steps);
    let waves = plan_waves(&steps, &inputs())?;
    let ids = |wave: &Vec<usize>| wave.iter().map(|at| steps[*at].id.clone()).collect();
    Ok(waves.waves.iter().map(ids).collect())
}

fn inputs() -> Map<String, Value> {
    json!({ "city": "Ghent" }).as_object().unwrap().clone()
}

#[test]
fn steps_run_in_waves_by_what_they_depend_on() {
    let steps = json!([
        { "id": "report", "tool": "t", "depends_on": ["b", "a"] },
        { "id": "b", "tool": "t" },
        { "id": "a", "tool": "t" },
        { "id": "late", "tool": "t", "arguments": { "of": { "list": ["$report.lines.0"] } } },
    ]);
    assert_eq!(order(steps).unwrap(), [vec!["a", "b"], vec!["report"], vec!["late"]]);
}

#[test]
fn a_group_moves_to_the_latest_wave_that_any_of_it_needs() {
    let steps = json!([
        { "id": "first", "tool": "t" },
        { "id": "x", "tool": "t", "parallel_group": "g" },
        { "id": "y", "tool": "t", "parallel_group": "g", "depends_on": ["first"] },
        { "id": "after", "tool": "t", "depends_on": ["x"] },
    ]);
    assert_eq!(order(steps).unwrap(), [vec!["first"], vec!["x", "y"], vec!["after"]]);
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let told = |steps| order(steps).unwrap_err();
    assert_eq!(
        told(json!([{ "id": "a", "tool": "t" }, { "id": "a", "tool": "t" }])),
        "steps[1].id: duplicate step `a`"
    );
    assert_eq!(
        told(json!([{ "id": "a", "tool": "t", "depends_on": ["z"] }])),
        "steps[0].depends_on: unknown step `z`"
    );
    assert_eq!(
        told(json!([{ "id": "a", "tool": "t", "arguments": { "x": ["$nobody.k"] } }])),
        "steps[0].arguments.x: unknown step `nobody`; `$$` is a plain `$`"
    );
    let cycle = json!([
        { "id": "free", "tool": "t" },
        { "id": "a", "tool": "t", "depends_on": ["b"] },
        { "id": "b", "tool": "t", "arguments": { "x": "$a" } },
    ]);
    assert_eq!(told(cycle), "steps: these wait for each other, or for one that does: a, b");
    let inside = json!([
        { "id": "a", "tool": "t", "parallel_group": "g" },
        { "id": "b", "tool": "t", "parallel_group": "g", "depends_on": ["a"] },
    ]);
    assert!(told(inside).contains("wait for each other"));
    assert!(told(json!([{ "id": "", "tool": "t" }])).starts_with("steps[0].id: invalid ID ``"));
    assert_eq!(told(json!([])), "steps: 0 steps; write 1 to 1000");
    assert!(serde_json::from_value::<ProgramStep>(json!({ "tool": "t" })).is_err());
}

#[test]
fn texts_name_what_other_steps_came_to() {
    let steps = planned(json!([
        { "id": "a", "tool": "t", "arguments": { "price": "$5.00", "own": "$$a", "in": "$city" } },
        { "id": "b", "tool": "t", "arguments": { "all": "$a", "part": ["$a.rows.1.k"] } },
    ]));
    let waves = plan_waves(&steps, &inputs()).unwrap();
    let values = json!({ "city": "Ghent", "a": { "rows": [0, { "k": 7 }] } });
    let values = values.as_object().unwrap();
    let filled = |step: usize| -> Value {
        let kwargs = waves.steps[step].kwargs.iter();
        kwargs
            .map(|(key, it)| (key.clone(), it.resolve(values).unwrap()))
            .collect::<Map<_, _>>()
            .into()
    };
    assert_eq!(filled(0), json!({ "price": "$5.00", "own": "$a", "in": "Ghent" }));
    assert_eq!(filled(1), json!({ "all": { "rows": [0, { "k": 7 }] }, "part": [7] }));
    // What is not there is told when it is needed.
    assert!(waves.steps[1].kwargs[1].1.resolve(&Map::new()).is_none());
}
