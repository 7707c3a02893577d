//! The bodies of webhooks. Texts are passed where their receiver does not interpret them, or are
//! escaped: a server's name or a statement must not make a mention, a link or a button.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::alerts::notification::{Notification, Notified, plain};

/// What a receiver expects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WebhookFormat {
    /// Alertmanager's webhook, version 4, which most tools for on-call duty read
    #[default]
    Alertmanager,
    /// Slack, Mattermost, Rocket.Chat
    Slack,
    /// Microsoft Teams, by a workflow
    Teams,
    /// Feishu and Lark
    Feishu,
    /// DingTalk
    Dingtalk,
}

impl WebhookFormat {
    /// The body of a message.
    #[must_use]
    pub fn body(self, message: &Notification) -> Value {
        match self {
            Self::Alertmanager => alertmanager(message),
            Self::Slack => slack(message),
            Self::Teams => teams(message),
            Self::Feishu => feishu(message),
            Self::Dingtalk => {
                json!({"msgtype": "text", "text": {"content": text(message)}})
            }
        }
    }

    /// Reads the answer of status 2xx to a message: some receivers have their errors in the body.
    ///
    /// # Errors
    /// The receiver did not accept the message.
    pub fn check(self, answer: &[u8]) -> Result<(), String> {
        let (code, reason) = match self {
            Self::Alertmanager | Self::Slack | Self::Teams => return Ok(()),
            Self::Feishu => ("code", "msg"),
            Self::Dingtalk => ("errcode", "errmsg"),
        };
        let answer: Value = serde_json::from_slice(answer)
            .map_err(|_| "the answer is not the JSON of this format".to_owned())?;
        match answer.get(code).and_then(Value::as_i64) {
            Some(0) => Ok(()),
            Some(number) => {
                let reason = answer.get(reason).and_then(Value::as_str).unwrap_or_default();
                Err(plain(&format!("the receiver answered with {code} {number}: {reason}")))
            }
            None => Err(format!("the answer has no {code}: is the format right?")),
        }
    }
}

fn text(message: &Notification) -> String {
    format!("{}\n{}", message.subject(), message.lines().join("\n"))
}

/// In Slack's texts `<` begins mentions and links; these three characters have entities.
fn slack(message: &Notification) -> Value {
    let text = text(message).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    json!({"text": text, "unfurl_links": false, "unfurl_media": false})
}

/// A card whose text runs are not Markdown.
fn teams(message: &Notification) -> Value {
    let run = |text: String, weight: &str| {
        json!({
            "type": "RichTextBlock",
            "inlines": [{"type": "TextRun", "text": text, "weight": weight}],
        })
    };
    let lines = message.lines().into_iter().map(|line| run(line, "default"));
    let body: Vec<Value> = std::iter::once(run(message.subject(), "bolder")).chain(lines).collect();
    json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "contentUrl": null,
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.4",
                "body": body,
            },
        }],
    })
}

/// A post: a text of another type can mention all members of the chat.
fn feishu(message: &Notification) -> Value {
    let lines: Vec<Value> =
        message.lines().into_iter().map(|line| json!([{"tag": "text", "text": line}])).collect();
    let post = json!({"title": message.subject(), "content": lines});
    json!({"msg_type": "post", "content": {"post": {"en_us": post.clone(), "zh_cn": post}}})
}

fn alertmanager(message: &Notification) -> Value {
    let alerts: Vec<Value> = message.alerts.iter().map(alertmanager_alert).collect();
    let status = if message.is_resolved() { "resolved" } else { "firing" };
    let first = message.alerts.first().map(|it| &it.alert);
    let mut common = json!({
        "alertname": message.rule, "severity": message.severity(), "job": "tacho-hub",
    });
    let is_common = message.omitted == 0
        && message.alerts.iter().all(|it| Some(&it.alert.server) == first.map(|it| &it.server));
    if is_common {
        common["server"] = first.and_then(|it| it.server.clone()).unwrap_or_default().into();
    }
    json!({
        "version": "4",
        "groupKey": format!("{{}}:{{alertname=\"{}\"}}", message.rule),
        "truncatedAlerts": message.omitted,
        "status": status,
        "receiver": "tacho-hub",
        "groupLabels": {"alertname": message.rule},
        "commonLabels": common,
        "commonAnnotations": {"summary": first.map_or("", |it| &it.title)},
        "externalURL": "",
        "alerts": alerts,
    })
}

fn alertmanager_alert(Notified { alert, is_resolved }: &Notified) -> Value {
    json!({
        "status": if *is_resolved { "resolved" } else { "firing" },
        "labels": {
            "alertname": alert.rule,
            "severity": alert.severity,
            "server": alert.server.as_deref().unwrap_or_default(),
            "job": "tacho-hub",
        },
        "annotations": {
            "summary": alert.title,
            "description": alert.message,
            "count": alert.count.to_string(),
        },
        "startsAt": alert.first_ts,
        "endsAt": if *is_resolved { alert.last_ts.as_str() } else { "0001-01-01T00:00:00Z" },
        "generatorURL": "",
        "fingerprint": format!("{:016x}", alert.id),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Notification {
        let mut message = Notification::test(5);
        message.alerts[0].alert.server = Some("db1".to_owned());
        message.alerts[0].alert.message =
            "<!channel> <at user_id=\"all\"></at> [x](http://evil)\n@all".to_owned();
        message
    }

    #[test]
    fn a_text_of_others_is_neither_a_mention_nor_a_link() {
        let slack = WebhookFormat::Slack.body(&message());
        let text = slack["text"].as_str().unwrap();
        assert!(text.contains("&lt;!channel&gt;") && !text.contains('<'), "{text}");
        assert_eq!(text.lines().count(), 3);
        let teams = WebhookFormat::Teams.body(&message());
        let body = &teams["attachments"][0]["content"]["body"];
        assert_eq!(body[1]["inlines"][0]["type"], "TextRun");
        assert!(body[1]["inlines"][0]["text"].as_str().unwrap().contains("[x](http://evil)"));
        let feishu = WebhookFormat::Feishu.body(&message());
        let post = &feishu["content"]["post"]["zh_cn"];
        assert_eq!(post["content"][0][0]["tag"], "text");
        assert!(post["title"].as_str().unwrap().starts_with("Tachograph [low]"));
        let dingtalk = WebhookFormat::Dingtalk.body(&message());
        assert!(dingtalk.get("at").is_none());
        assert_eq!(dingtalk["text"]["content"].as_str().unwrap().lines().count(), 3);
    }

    #[test]
    fn an_error_in_an_answer_of_status_200_is_one() {
        for format in [WebhookFormat::Alertmanager, WebhookFormat::Slack, WebhookFormat::Teams] {
            assert_eq!(format.check(b"ok"), Ok(()));
        }
        let feishu = WebhookFormat::Feishu;
        assert_eq!(feishu.check(br#"{"code":0,"msg":"success"}"#), Ok(()));
        let error = feishu.check(br#"{"code":19024,"msg":"Key Words Not Found"}"#).unwrap_err();
        assert_eq!(error, "the receiver answered with code 19024: Key Words Not Found");
        let dingtalk = WebhookFormat::Dingtalk;
        assert_eq!(dingtalk.check(br#"{"errcode":0,"errmsg":"ok"}"#), Ok(()));
        assert!(dingtalk.check(br#"{"errcode":310000,"errmsg":"sign"}"#).is_err());
        assert!(dingtalk.check(b"<html>").is_err() && dingtalk.check(b"{}").is_err());
    }

    #[test]
    fn alertmanager_gets_a_group() {
        let mut message = message();
        let body = WebhookFormat::Alertmanager.body(&message);
        assert_eq!((&body["status"], &body["version"]), (&json!("firing"), &json!("4")));
        assert_eq!(body["commonLabels"]["server"], "db1");
        assert_eq!(body["alerts"][0]["labels"]["alertname"], "test");
        assert_eq!(body["alerts"][0]["startsAt"], "1970-01-01T00:00:00.000005Z");
        message.alerts[0].is_resolved = true;
        let body = WebhookFormat::Alertmanager.body(&message);
        assert_eq!(
            (&body["status"], &body["alerts"][0]["status"]),
            (&"resolved".into(), &"resolved".into())
        );
        message.omitted = 1;
        let body = WebhookFormat::Alertmanager.body(&message);
        assert_eq!(
            (&body["status"], body["truncatedAlerts"].as_u64()),
            (&"firing".into(), Some(1))
        );
        assert!(body["commonLabels"].get("server").is_none());
    }
}
