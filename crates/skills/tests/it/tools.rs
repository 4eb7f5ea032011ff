//! The skill tools of agents.

use meerkat_core::{Invocation, RunId, SessionId, ToolCall, ToolOutput, ToolSource as _};
use meerkat_skills::{AgentTools, Catalog, SkillFilter, SourceId};
use serde_json::{Value, json};

use crate::tree::{World, skill_text};

async fn call(tools: &AgentTools, name: &str, args: Value) -> ToolOutput {
    let tool = tools.tools().into_iter().find(|tool| tool.def().name == name).unwrap();
    let id = "01936f8a-7b2c-7000-8000-000000000001";
    let (session_id, run_id): (SessionId, RunId) = (id.parse().unwrap(), id.parse().unwrap());
    let call = ToolCall { id: "1".to_owned(), name: name.to_owned(), args };
    tool.call(Invocation { session_id, run_id, call, trace: None }).await
}

async fn answer(tools: &AgentTools, name: &str, args: Value) -> Value {
    let output = call(tools, name, args).await;
    assert!(!output.is_error, "{output:?}");
    serde_json::from_str(&text(&output)).unwrap()
}

fn text(output: &ToolOutput) -> String {
    output
        .content
        .blocks()
        .iter()
        .filter_map(|block| serde_json::to_value(block).ok()?["text"].as_str().map(str::to_owned))
        .collect()
}

/// Returns the catalog of a world, after a scan.
fn scanned(world: &World) -> Catalog {
    let catalog = world.catalog();
    catalog.refresh();
    catalog
}

fn world() -> World {
    let world = World::new();
    world.skill("project/.rkat/skills", "pdf", "Reads PDFs");
    world.skill("project/.rkat/skills", "xlsx", "Reads tables");
    world.write("project/.rkat/skills/pdf/references/more.md", "More.");
    world.write("project/.rkat/skills/pdf/logo.bin", [255, 254]);
    world
}

#[test]
fn empty_catalog_provides_no_tools() {
    assert_eq!(AgentTools::new(scanned(&World::new()), SkillFilter::All).tools().len(), 0);
}

#[test]
fn tools_have_names_and_schemas() {
    let world = world();
    let tools = AgentTools::new(scanned(&world), SkillFilter::All);
    let names: Vec<_> = tools.tools().iter().map(|tool| tool.def().name.clone()).collect();
    assert_eq!(names, ["browse_skills", "load_skill", "skill_list_resources", "skill_read_resource"]);
    let schema = json!({
        "type": "object",
        "properties": {
            "source_uuid": {"type": "string", "description": "The skill's source: the first part of its id."},
            "skill_name": {"type": "string", "description": "The skill's name: the second part of its id."},
        },
        "additionalProperties": false,
        "required": ["source_uuid", "skill_name"],
    });
    assert_eq!(tools.tools()[1].def().input_schema, schema);
}

#[tokio::test]
async fn browse_finds_skills_by_words() {
    let world = world();
    let tools = AgentTools::new(scanned(&world), SkillFilter::All);
    let found = json!({"skills": [{
        "source_uuid": SourceId::PROJECT, "skill_name": "pdf", "name": "pdf", "description": "Reads PDFs",
    }]});
    assert_eq!(answer(&tools, "browse_skills", json!({"query": "READS pdfs"})).await, found);
    let all = answer(&tools, "browse_skills", json!({"source_uuid": SourceId::PROJECT})).await;
    assert_eq!(all["skills"].as_array().unwrap().len(), 2);
    assert_eq!(answer(&tools, "browse_skills", json!({"query": "none"})).await, json!({"skills": []}));
}

#[tokio::test]
async fn skill_and_its_files_are_readable() {
    let world = world();
    let tools = AgentTools::new(scanned(&world), SkillFilter::All);
    let key = json!({"source_uuid": SourceId::PROJECT, "skill_name": "pdf"});
    let body = "# pdf\n\nDo it.\n";
    let loaded = json!({
        "source_uuid": SourceId::PROJECT, "skill_name": "pdf", "name": "pdf", "body": body, "byte_size": body.len(),
    });
    assert_eq!(answer(&tools, "load_skill", key.clone()).await, loaded);
    let listed = json!({
        "source_uuid": SourceId::PROJECT,
        "skill_name": "pdf",
        "base_directory": world.path("project/.rkat/skills/pdf"),
        "resources": [
            {"path": "SKILL.md", "size": skill_text("pdf", "Reads PDFs").len()},
            {"path": "logo.bin", "size": 2},
            {"path": "references/more.md", "size": 5},
        ],
        "left_out": 0,
    });
    assert_eq!(answer(&tools, "skill_list_resources", key).await, listed);
    let file = json!({"source_uuid": SourceId::PROJECT, "skill_name": "pdf", "path": "references/more.md"});
    let read = json!({
        "source_uuid": SourceId::PROJECT,
        "skill_name": "pdf",
        "path": "references/more.md",
        "content": "More.",
        "byte_size": 5,
    });
    assert_eq!(answer(&tools, "skill_read_resource", file).await, read);
}

#[tokio::test]
async fn failed_calls_return_errors_to_the_model() {
    let world = world();
    let tools = AgentTools::new(scanned(&world), SkillFilter::All);
    let unknown = json!({"source_uuid": SourceId::PROJECT, "skill_name": "none"});
    let escape = json!({"source_uuid": SourceId::PROJECT, "skill_name": "pdf", "path": "../xlsx/SKILL.md"});
    let binary = json!({"source_uuid": SourceId::PROJECT, "skill_name": "pdf", "path": "logo.bin"});
    for (tool, args, code) in [
        ("load_skill", unknown, "execution_failed"),
        ("load_skill", json!({"skill_name": "pdf"}), "invalid_arguments"),
        ("load_skill", json!({"source_uuid": "pdf", "skill_name": "pdf"}), "invalid_arguments"),
        ("skill_read_resource", escape, "execution_failed"),
        ("skill_read_resource", binary, "execution_failed"),
        ("browse_skills", json!({"words": "x"}), "invalid_arguments"),
    ] {
        let output = call(&tools, tool, args.clone()).await;
        let error: Value = serde_json::from_str(&text(&output)).unwrap();
        assert_eq!((output.is_error, &error["error"]), (true, &json!(code)), "{tool} {args}");
    }
}

#[tokio::test]
async fn browse_marks_untrusted_skills() {
    let world = world();
    let roots = meerkat_skills::Roots { trust: meerkat_skills::Trust::Untrusted, ..world.roots() };
    let sources = meerkat_skills::standard_roots(&roots, meerkat_skills::Limits::default());
    let catalog = meerkat_skills::Catalog::new(sources, meerkat_skills::Policy::default());
    catalog.refresh();
    let tools = AgentTools::new(catalog, SkillFilter::All);
    let found = answer(&tools, "browse_skills", json!({"query": "pdf"})).await;
    assert_eq!(found["skills"][0]["trusted"], json!(false));
}
