//! Tests of the worker's limits: the CAS itself has no deadline and no memory limit.

use serde_json::json;

use crate::calls::{call, tool, value};

#[tokio::test]
async fn what_never_ends_is_ended_and_the_next_call_is_answered() {
    let tool = tool();
    // A system whose Gröbner basis no machine can compute.
    let endless = "x**13*y**11 + z**7*w**9 = 1; x**9*z**13 - y**7*w = 2; y**17 + x*z**11*w**5 = 3; \
                   w**12*x**5 - z**3*y**8 = x + y + z + w";
    let args = json!({"equation": endless, "variable": "x, y, z, w"});
    let outcome = call(&tool, &args).await;
    assert!(outcome.is_error, "{outcome:?}");
    assert!(value(&outcome).as_str().unwrap().contains("longer than 10 s"), "{outcome:?}");
    let next = call(&tool, &json!({"equation": "x**2 = 9"})).await;
    assert_eq!(value(&next), json!(["-3", "3"]));
}

#[tokio::test]
async fn parentheses_without_end_are_an_error_and_not_the_end_of_the_worker() {
    let tool = tool();
    let deep = format!("{}x{} = 0", "(".repeat(900), ")".repeat(900));
    let outcome = call(&tool, &json!({"equation": deep})).await;
    assert!(outcome.is_error);
    assert!(value(&outcome).as_str().unwrap().contains("nested deeper"), "{outcome:?}");
}
