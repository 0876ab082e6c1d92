//! Errors as pages, and the way of a signed-out user to the sign-in page.

use axum::http::uri::PathAndQuery;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{Html, IntoResponse, Redirect, Response};
use server_core::error::ApiError;
use server_core::http_status::http_status;
use tool::ErrorCode;
use tool::call_outcome::CallFailure;
use url::form_urlencoded;

use crate::html::{element, link, text_element};
use crate::page_layout::{PageLayout, PageUser};
use crate::{FIRST_PAGE, sign_in};

/// An error of a page.
#[derive(Debug)]
pub(crate) enum PageError {
    /// Nobody is signed in; the page of this path opens afterwards.
    SignedOut(String),
    /// The error of a function, as REST has it.
    Failed(Box<ApiError>),
}

impl PageError {
    /// The error of a request without a valid session. A post is not repeated after signing in.
    pub(crate) fn signed_out(method: &Method, uri: &Uri) -> Self {
        let page = uri.path_and_query().map(PathAndQuery::as_str);
        let page = page.filter(|_| method == Method::GET).unwrap_or(FIRST_PAGE);
        Self::SignedOut(sign_in::check_next_page(page).to_owned())
    }

    /// The error of a post that is not from a page of this session.
    pub(crate) fn refused(message: &str) -> Self {
        ApiError::new(ErrorCode::ForbiddenOrigin, message).into()
    }

    /// The error of an unknown path.
    pub(crate) fn no_page() -> Self {
        ApiError::new(ErrorCode::NotFound, "there is no such page").into()
    }

    /// The error of an invalid query.
    pub(crate) fn invalid_query(message: impl Into<String>) -> Self {
        ApiError::new(ErrorCode::InvalidRequest, message).into()
    }

    /// Adds advice on how to fix the error.
    #[must_use]
    pub(crate) fn with_help(self, help: &str) -> Self {
        match self {
            Self::Failed(error) => Self::Failed(Box::new(error.with_help(help))),
            signed_out @ Self::SignedOut(_) => signed_out,
        }
    }
}

impl From<ApiError> for PageError {
    fn from(error: ApiError) -> Self {
        Self::Failed(Box::new(error))
    }
}

impl From<CallFailure> for PageError {
    fn from(failure: CallFailure) -> Self {
        ApiError::new(failure.code, failure.message).into()
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let error = match self {
            Self::SignedOut(next) => {
                let next: String = form_urlencoded::byte_serialize(next.as_bytes()).collect();
                return Redirect::to(&format!("/ui/sign-in?next={next}")).into_response();
            }
            Self::Failed(error) => error,
        };
        let status = http_status(error.code());
        (status, error_page(status, &error)).into_response()
    }
}

fn error_page(status: StatusCode, error: &ApiError) -> Html<String> {
    let title = status.canonical_reason().unwrap_or("Error");
    let mut notice = element("div").class("notice error").attr("role", "alert");
    notice = notice.child(text_element("p", error.message()));
    notice = notice.children(error.help().map(|help| text_element("p", help)));
    let code = text_element("code", error.code().as_str());
    let back = element("p").child(link(FIRST_PAGE, "Back to the first page"));
    let content = element("div")
        .child(notice)
        .child(element("p").text("Error code: ").child(code))
        .child(back);
    PageLayout { title, section: None, user: PageUser::Unknown, twin: None }.render(content)
}
