//! The router, and the list of its requests: a route that is added here needs its description in
//! [`super::openapi`].

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodRouter, delete, get, post, put};

use crate::state::AppState;

/// Routes, in the order in which they were added.
#[derive(Default)]
pub struct Routes {
    router: Router<AppState>,
    list: Vec<(&'static str, &'static str)>,
}

macro_rules! methods {
    ($($method:ident)*) => {
        $(
            #[doc = concat!("Adds `", stringify!($method), "` of a path.")]
            #[must_use]
            pub fn $method<T: 'static>(
                self,
                path: &'static str,
                handler: impl Handler<T, AppState>,
            ) -> Self {
                self.add(stringify!($method), path, $method(handler))
            }
        )*
    };
}

impl Routes {
    methods! { get post put delete }

    fn add(
        mut self,
        method: &'static str,
        path: &'static str,
        handler: MethodRouter<AppState>,
    ) -> Self {
        self.list.push((method, path));
        Self { router: self.router.route(path, handler), list: self.list }
    }

    /// Adds those of another list.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        self.list.extend(other.list);
        Self { router: self.router.merge(other.router), list: self.list }
    }

    /// Changes the router, as by a layer.
    #[must_use]
    pub fn map(self, change: impl FnOnce(Router<AppState>) -> Router<AppState>) -> Self {
        Self { router: change(self.router), list: self.list }
    }

    /// Method and path of each, the method in small letters.
    #[must_use]
    pub fn list(&self) -> &[(&'static str, &'static str)] {
        &self.list
    }

    /// The router without the list.
    pub fn into_router(self) -> Router<AppState> {
        self.router
    }
}
