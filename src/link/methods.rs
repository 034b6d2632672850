//! The methods of the link, each as thin as the call of the presence that it mirrors.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::connection::Connection;
use super::messages::{
    AcceptParams, ActionsParams, ApproveParams, ApproveResult, AskParams, AskResult, AskWord,
    BlockParams, BlockResult, GlanceResult, ItemParams, NestedParams, NoParams, OpenParams,
    RefuseParams, ReleaseParams, SayKind, SayParams, SayResult, SessionParams, StartersParams,
    StateParams, StatusParams, SubscribeParams, TitleParams, TurnResult, UnblockParams,
    WithdrawParams, method,
};
use super::protocol::{ErrorObject, Request, code};
use super::status::status;
use crate::collie::{AnswerValue, AskKind, DecidedBy, Item};
use crate::os::random;
use crate::presence::{Approval, Ask, AskError, Glance, Inbox, Nested, Old, Presence, Session};
use crate::session::Rank;

/// What came of a request so far.
pub(super) enum Outcome {
    Done(Result<Value, ErrorObject>),
    Asked(Asked),
    Subscribed(Inbox),
}

/// An ask that waits for the user.
pub(super) struct Asked {
    pub(super) session: Session,
    kind: Kind,
}

enum Kind {
    Question(Ask),
    Approval(Approval),
}

impl Asked {
    pub(super) fn ask_id(&self) -> String {
        match &self.kind {
            Kind::Question(ask) => ask.id().to_owned(),
            Kind::Approval(approval) => approval.id().to_owned(),
        }
    }

    pub(super) async fn wait(self) -> Result<Value, ErrorObject> {
        let ask_id = self.ask_id();
        match self.kind {
            Kind::Question(ask) => {
                let none = AskResult {
                    option_ids: None,
                    text: None,
                    values: None,
                    decided_by: DecidedBy::Phone,
                    ask_id,
                };
                to_value(&match ask.await {
                    Ok(answer) => match answer.value {
                        AnswerValue::Options(ids) => AskResult { option_ids: Some(ids), ..none },
                        AnswerValue::Text(text) => AskResult { text: Some(text), ..none },
                        AnswerValue::Values(values) => AskResult { values: Some(values), ..none },
                    },
                    Err(closed) => AskResult { decided_by: closed.decided_by, ..none },
                })
            }
            Kind::Approval(approval) => {
                let verdict = approval.await;
                let (approved, decided_by) = (verdict.approved, verdict.decided_by);
                to_value(&ApproveResult { approved, decided_by, ask_id })
            }
        }
    }
}

/// Does what a request says.
pub(super) fn run(
    connection: &mut Connection,
    request: &Request<'_>,
) -> Result<Outcome, ErrorObject> {
    let presence = &connection.presence;
    match request.method.as_str() {
        method::ASK => ask(presence, params(request)?).map(Outcome::Asked),
        method::APPROVE => approve(presence, params(request)?).map(Outcome::Asked),
        method::SUBSCRIBE => {
            let SubscribeParams { session: id } = params(request)?;
            Ok(Outcome::Subscribed(match id {
                Some(id) => session(presence, &id)?.inbox(),
                None => presence.inbox(),
            }))
        }
        _ => at_once(connection, request).map(|result| Outcome::Done(Ok(result))),
    }
}

/// Does what waits for nobody.
fn at_once(connection: &mut Connection, request: &Request<'_>) -> Result<Value, ErrorObject> {
    let presence = &connection.presence;
    let done = || Ok(json!({}));
    match request.method.as_str() {
        method::OPEN => {
            match open(presence, params(request)?)? {
                Some((session, true)) => connection.nested.push(session),
                Some((session, false)) => connection.opened.add(session),
                None => {}
            }
            done()
        }
        method::TITLE => {
            let TitleParams { session: id, title } = params(request)?;
            session(presence, &id)?.title(&title).map_err(|error| invalid(&error))?;
            done()
        }
        method::FOREGROUND => {
            let SessionParams { session: id } = params(request)?;
            session(presence, &id)?.foreground();
            done()
        }
        method::RELEASE => {
            match params(request)? {
                ReleaseParams { session: Some(id) } => session(presence, &id)?.release(),
                ReleaseParams { session: None } => presence.release(),
            }
            done()
        }
        method::CLOSE => {
            let SessionParams { session: id } = params(request)?;
            session(presence, &id)?.close();
            done()
        }
        method::STATE => {
            state(presence, params(request)?)?;
            done()
        }
        method::BLOCK => {
            let BlockParams { session: id, message } = params(request)?;
            let block = session(presence, &id)?.block(&message);
            let block = connection.keep_block(block)?;
            to_value(&BlockResult { block })
        }
        method::UNBLOCK => {
            let UnblockParams { block } = params(request)?;
            drop(connection.take_block(block)?);
            done()
        }
        method::TURN => {
            let SessionParams { session: id } = params(request)?;
            to_value(&TurnResult { turn: session(presence, &id)?.turn() })
        }
        method::SAY => {
            let id = say(presence, params(request)?)?;
            to_value(&SayResult { id })
        }
        method::ITEM => {
            item(presence, params(request)?)?;
            done()
        }
        method::ACTIONS => {
            let ActionsParams { session: id, actions } = params(request)?;
            session(presence, &id)?.actions(actions).map_err(|error| invalid(&error))?;
            done()
        }
        method::STARTERS => {
            let StartersParams { starters } = params(request)?;
            presence.starters(starters).map_err(|error| invalid(&error))?;
            done()
        }
        method::WITHDRAW => {
            let WithdrawParams { request } = params(request)?;
            connection.withdraw(&request)?;
            done()
        }
        method::GLANCE => to_value(&glance(presence, &params(request)?)?),
        method::STATUS => {
            let params: StatusParams = params(request)?;
            to_value(&status(presence, &params, &connection.opened))
        }
        method::RESUMED => {
            let NoParams {} = params(request)?;
            presence.resumed();
            done()
        }
        method::ACCEPT => {
            let AcceptParams { request_id, session } = params(request)?;
            connection.take_wish(&request_id)?.accepted(session);
            done()
        }
        method::REFUSE => {
            let RefuseParams { request_id, reason } = params(request)?;
            connection.take_wish(&request_id)?.refuse(&reason);
            done()
        }
        unknown => {
            let error = format!("there is no method `{unknown}`");
            Err(ErrorObject::new(code::METHOD_NOT_FOUND, error))
        }
    }
}

fn to_value(result: &impl Serialize) -> Result<Value, ErrorObject> {
    serde_json::to_value(result)
        .map_err(|error| ErrorObject::new(code::INVALID_REQUEST, error.to_string()))
}

fn invalid(error: &impl ToString) -> ErrorObject {
    ErrorObject::new(code::INVALID_PARAMS, error.to_string())
}

fn params<P: DeserializeOwned>(request: &Request<'_>) -> Result<P, ErrorObject> {
    let text = request.params.map_or("{}", RawValue::get);
    if !text.starts_with('{') {
        return Err(ErrorObject::new(code::INVALID_PARAMS, "`params` has to be an object"));
    }
    serde_json::from_str(text)
        .map_err(|error| ErrorObject::new(code::INVALID_PARAMS, format!("`params`: {error}")))
}

fn session(presence: &Presence, id: &str) -> Result<Session, ErrorObject> {
    presence.find(id).ok_or_else(|| {
        ErrorObject::new(code::UNKNOWN_SESSION, format!("there is no session `{id}` here"))
    })
}

/// Opens a session, or brings one that is open up to date. Tells whether the new one is nested.
fn open(presence: &Presence, params: OpenParams) -> Result<Option<(Session, bool)>, ErrorObject> {
    let OpenParams { session: id, title, resume, replaces, keep, nested } = params;
    let is_nested = nested.is_some();
    let open = presence.find(&id).filter(|open| open.id() == id && !is_nested);
    if let Some(open) = open {
        if let Some(title) = &title {
            open.title(title).map_err(|error| invalid(&error))?;
        }
        if let Some(keeper) = presence.keeper_of(&open) {
            open.resume_by(keeper.command(&id, resume.as_deref()));
            keeper.told(&id, title.as_deref(), resume);
        } else if let Some(resume) = resume {
            open.resume(resume).map_err(|error| invalid(&error))?;
        }
        return Ok(None);
    }
    let replaced = replaces.map(|id| session(presence, &id)).transpose()?;
    let keeper = replaced.as_ref().and_then(|replaced| presence.keeper_of(replaced));
    let title = title.or_else(|| keeper?.first_title());
    let mut opening = presence.session(&id);
    if let Some(title) = &title {
        opening = opening.title(title);
    }
    if let Some(keeper) = keeper {
        opening = opening.resume_by(keeper.command(&id, resume.as_deref()));
    } else if let Some(resume) = &resume {
        opening = opening.resume(resume).map_err(|error| invalid(&error))?;
    }
    if let Some(replaced) = &replaced {
        let old = if keep { Old::Stays } else { Old::Closes };
        opening = opening.replaces(replaced, old);
    }
    if let Some(NestedParams { within, agent, folder, has_terminal }) = nested {
        let within = session(presence, &within)?;
        opening = opening.nested(Nested { within, agent, folder, has_terminal });
    }
    let opened = opening.open().map_err(|error| invalid(&error))?;
    if let Some(keeper) = keeper {
        keeper.told(&id, title.as_deref(), resume);
    }
    Ok(Some((opened, is_nested)))
}

fn state(presence: &Presence, params: StateParams) -> Result<(), ErrorObject> {
    let StateParams { session: id, state, message, evidence } = params;
    let session = session(presence, &id)?;
    let rank = evidence.map_or(Rank::Word, Rank::from);
    session.signal(rank, state.into(), message.as_deref());
    // Who reads the pane after this answer sees the state in it.
    session.publish();
    Ok(())
}

fn item(presence: &Presence, params: ItemParams) -> Result<(), ErrorObject> {
    let ItemParams { session: id, item, transcribed } = params;
    let session = session(presence, &id)?;
    let shown = if transcribed { session.transcribe(item) } else { session.item(item) };
    shown.map_err(|error| invalid(&error))
}

fn glance(presence: &Presence, params: &SessionParams) -> Result<GlanceResult, ErrorObject> {
    let session = session(presence, &params.session)?;
    session.publish();
    let Glance { state, turn, turn_runs, said, said_before, is_lent } = session.glance();
    Ok(GlanceResult { state: state.into(), turn, turn_runs, said, said_before, is_lent })
}

fn say(presence: &Presence, params: SayParams) -> Result<String, ErrorObject> {
    let SayParams { session: session_id, kind, text, id, partial } = params;
    let session = session(presence, &session_id)?;
    let id = match id {
        Some(id) => id,
        None => random::hex(8).map_err(|error| invalid(&error))?,
    };
    let item = match kind {
        SayKind::User => Item::user(&id, text),
        SayKind::Reply => Item::reply(&id, text),
        SayKind::Thinking => Item::thinking(&id, text),
        SayKind::Markdown => Item::markdown(&id, text),
        SayKind::Notice => Item::notice(&id, text),
    };
    let item = if partial { item.partial() } else { item };
    session.item(item).map_err(|error| invalid(&error))?;
    Ok(id)
}

fn ask(presence: &Presence, params: AskParams) -> Result<Asked, ErrorObject> {
    let session = session(presence, &params.session)?;
    let AskParams { title, options, multiple, min, max, placeholder, max_length, fields, .. } =
        params;
    let kind = match params.kind {
        AskWord::Choice => AskKind::Choice { options, multiple, min, max },
        AskWord::Text => AskKind::Text { placeholder, max_length },
        AskWord::Form => AskKind::Form { fields },
    };
    let mut question = session.question(&title, kind);
    if let Some(reason) = &params.reason {
        question = question.reason(reason);
    }
    if let Some(tool) = &params.tool {
        question = question.tool(tool);
    }
    if let Some(call) = &params.call {
        question = question.call(call);
    }
    if let Some(item) = &params.item {
        question = question.item(item);
    }
    if let Some(milliseconds) = params.timeout_ms {
        question = question.timeout(Duration::from_millis(milliseconds));
    }
    let kind = Kind::Question(question.raise().map_err(|error| ask_error(&error))?);
    Ok(Asked { session, kind })
}

fn approve(presence: &Presence, params: ApproveParams) -> Result<Asked, ErrorObject> {
    let session = session(presence, &params.session)?;
    if params.arguments.as_ref().is_some_and(|arguments| !arguments.get().starts_with('{')) {
        return Err(invalid(&"`arguments` has to be an object"));
    }
    let mut question = session.approve(&params.tool, params.arguments);
    if let Some(reason) = &params.reason {
        question = question.reason(reason);
    }
    if let Some(call) = &params.call {
        question = question.call(call);
    }
    if let Some(item) = &params.item {
        question = question.item(item);
    }
    if let Some(milliseconds) = params.timeout_ms {
        question = question.timeout(Duration::from_millis(milliseconds));
    }
    let kind = Kind::Approval(question.raise().map_err(|error| ask_error(&error))?);
    Ok(Asked { session, kind })
}

fn ask_error(error: &AskError) -> ErrorObject {
    let code = match error {
        AskError::NobodyToAsk { .. } => code::NOBODY_TO_ASK,
        _ => code::INVALID_PARAMS,
    };
    ErrorObject::new(code, error.to_string())
}
