//! `meerkat_skills`.

use meerkat_contracts::SkillsRequest;

use super::{Call, Impact, Operation};
use crate::Error;
#[cfg(feature = "skills")]
pub use crate::tools::SkillsReply;

/// `meerkat_skills`.
pub struct Skills;

impl Operation for Skills {
    const NAME: &'static str = "meerkat_skills";
    const TITLE: &'static str = "List or inspect skills";
    const DOC: &'static str = "List available skills, with the source of each and which ones are shadowed by another \
        skill of the same name (action list), or read one in full (action inspect, with its skill_key). Load skills \
        into an agent with preload_skills or skill_refs of meerkat_run.";
    const IMPACT: Impact = Impact::ReadOnly;
    const CHECKS_BOUNDS: bool = true;
    type Input = SkillsRequest;
    type Output = SkillsReply;

    #[cfg(feature = "skills")]
    async fn call(call: Call, input: SkillsRequest) -> Result<SkillsReply, Error> {
        call.runtime.refresh_skills().await?;
        Ok(call.runtime.skills().handle(input).await?)
    }

    #[cfg(not(feature = "skills"))]
    async fn call(_: Call, _: SkillsRequest) -> Result<SkillsReply, Error> {
        let absent = crate::RequestError::NotCompiled { what: "loading skills", feature: "skills" };
        Err(absent.into())
    }
}

/// Empty reply of a build without skills.
#[cfg(not(feature = "skills"))]
#[derive(serde::Serialize, schemars::JsonSchema)]
pub struct SkillsReply {}
