BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE backend_budgets (
	backend TEXT NOT NULL, 
	next_at BIGINT NOT NULL, 
	CONSTRAINT backend_budgets_key PRIMARY KEY (backend)
);
CREATE TABLE catalog_intents (
	id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	identity TEXT NOT NULL, 
	action VARCHAR(16) NOT NULL, 
	view_id TEXT NOT NULL, 
	path JSON NOT NULL, 
	generation INTEGER, 
	query_id TEXT, 
	state VARCHAR(16) NOT NULL, 
	due_at BIGINT NOT NULL, 
	session_id TEXT, 
	epoch INTEGER, 
	claim_until BIGINT, 
	attempts INTEGER DEFAULT '0' NOT NULL, 
	last_error TEXT, 
	created_at BIGINT NOT NULL, 
	ended_at BIGINT, 
	CONSTRAINT catalog_intents_key PRIMARY KEY (id), 
	CONSTRAINT catalog_intents_ended_with_state CHECK ((ended_at IS NOT NULL) = (state IN ('done', 'failed'))), 
	CONSTRAINT catalog_intents_known_state CHECK (state IN ('pending', 'claimed', 'done', 'failed'))
);
INSERT INTO "catalog_intents" VALUES('ci_01a21da78b1972eab9bd9bb2cb900d62','anonymous','metastore','drop_generation','mv_01a21da789e8766a8c8735be2d4e06c6','["spark_catalog", "default", "v0"]',1,NULL,'pending',1795793849214710,NULL,NULL,NULL,0,NULL,1795793849114712,NULL);
CREATE TABLE definitions (
	id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	scope TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	name TEXT NOT NULL, 
	name_key TEXT NOT NULL, 
	text TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	ended_at BIGINT, 
	CONSTRAINT definitions_key PRIMARY KEY (id)
);
INSERT INTO "definitions" VALUES('de_01a21da7883f7795aa26178121f2689b','anonymous','adhoc','stream','clicks','clicks','CREATE STREAM clicks FROM rate',1795793848383857,NULL);
CREATE TABLE deployments (
	id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	action VARCHAR(16) NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	"plan" JSON NOT NULL, 
	created_at BIGINT NOT NULL, 
	applied_at BIGINT, 
	ended_at BIGINT, 
	CONSTRAINT deployments_key PRIMARY KEY (id), 
	CONSTRAINT deployments_ended_with_state CHECK ((ended_at IS NOT NULL) = (state IN ('rejected', 'applied', 'failed', 'expired'))), 
	CONSTRAINT deployments_known_state CHECK (state IN ('checking', 'planned', 'rejected', 'applying', 'applied', 'failed', 'expired'))
);
INSERT INTO "deployments" VALUES('dp_01a21da7778e726e8506f06071f77b1a','anonymous','deploy','applied','{"state_location": "/srv/headrace/state", "state_place": "file:/srv/headrace/state", "jobs": [{"name": "job", "path": "job.yaml", "decision": "start-clean", "reason": "The job is new.", "hint": "", "job_id": null, "generation": 0, "version": 1, "session": "jobs-default", "changed": [], "diff": "", "notes": [], "spec": {"text": "description: A job\nmetadata-columns: false\nname: job\nsql: SELECT value FROM numbers\ntarget-table: files\n", "written": {"name": "job", "description": "A job", "target-table": "files", "sql": "SELECT value FROM numbers", "metadata-columns": false}, "manifest": {"name": "job", "description": "A job", "target-table": "files", "sql": "SELECT value FROM numbers", "spark-properties": {}, "metadata-columns": false, "on-query-change": "reset"}, "definitions": {"streams": ["CREATE STREAM numbers FROM rate"], "sinks": ["CREATE SINK `files` TO `json`"], "setup": []}, "description": "A job", "query_fingerprint": "89eaf25f943d5a285df6db326af183fce6431598edd7e9b51752c68c1a125eb9", "configuration_fingerprint": "aa3bec8e99c97cca46e3face5487ce977370474ea887f0186c9f63c7f22e0551", "session": {"name": "jobs-default", "spec": {"profile": "default", "conf": {}, "catalog": null, "database": null, "jars": [], "files": [], "py_files": []}}, "queries": [{"name": "job", "directory": "", "spec": {"text": "SAVE STREAM `job` TO `files` IDENTIFIED BY `job`", "definitions": ["CREATE STREAM numbers FROM rate", "CREATE SINK `files` TO `json`"], "sink": "json", "path": null, "checkpoint": null, "views": [], "conf": {}, "scope": null, "view": null, "rows": {"setup": [], "sql": "SELECT value FROM numbers", "code": null, "metadata": null}}, "needs_path": true}], "summaries": {"job": {"is_streaming": true, "sources": ["rate"], "operators": [], "columns": [], "is_complete": true}}}, "restores_from": null, "is_other_lineage": false, "keeps_run": false, "takes_savepoint": true, "path_source": null, "facts": {"is_new": true, "is_running": false, "configuration_changed": true, "query_changed": true, "on_query_change": "reset"}, "query_places": [], "setup_places": []}], "errors": [], "notes": [], "check_ids": ["st_01a21da7778374f1a07633fc687dc077"]}',1795793844111866,1795793844821795,1795793845441320);
INSERT INTO "deployments" VALUES('dp_01a21da77d187197a134e3880e4cba04','anonymous','deploy','applied','{"state_location": "/srv/headrace/state", "state_place": "file:/srv/headrace/state", "jobs": [{"name": "job", "path": "job.yaml", "decision": "restart-from-savepoint", "reason": "The configuration has changed (trigger), and the query has not. The job continues from the savepoint with which it is stopped.", "hint": "", "job_id": "jb_01a21da77a57717b85ac76a1352126b6", "generation": 2, "version": 1, "session": "jobs-default", "changed": ["trigger"], "diff": "--- job (deployed)\n+++ job (new)\n@@ -3,3 +3,4 @@\n name: job\n sql: SELECT value FROM numbers\n target-table: files\n+trigger: 2 seconds\n", "notes": [], "spec": {"text": "description: A job\nmetadata-columns: false\nname: job\nsql: SELECT value FROM numbers\ntarget-table: files\ntrigger: 2 seconds\n", "written": {"name": "job", "description": "A job", "target-table": "files", "sql": "SELECT value FROM numbers", "metadata-columns": false, "trigger": "2 seconds"}, "manifest": {"name": "job", "description": "A job", "target-table": "files", "sql": "SELECT value FROM numbers", "spark-properties": {}, "trigger": "2 seconds", "metadata-columns": false, "on-query-change": "reset"}, "definitions": {"streams": ["CREATE STREAM numbers FROM rate"], "sinks": ["CREATE SINK `files` TO `json`"], "setup": []}, "description": "A job", "query_fingerprint": "89eaf25f943d5a285df6db326af183fce6431598edd7e9b51752c68c1a125eb9", "configuration_fingerprint": "cdf2ea7bba22500f279f52c6275eb7cdff848e50676e2d7175d9bf450202453d", "session": {"name": "jobs-default", "spec": {"profile": "default", "conf": {}, "catalog": null, "database": null, "jars": [], "files": [], "py_files": []}}, "queries": [{"name": "job", "directory": "", "spec": {"text": "SAVE STREAM `job` TO `files` IDENTIFIED BY `job` TRIGGER 2 SECONDS", "definitions": ["CREATE STREAM numbers FROM rate", "CREATE SINK `files` TO `json`"], "sink": "json", "path": null, "checkpoint": null, "views": [], "conf": {}, "scope": null, "view": null, "rows": {"setup": [], "sql": "SELECT value FROM numbers", "code": null, "metadata": null}}, "needs_path": true}], "summaries": {"job": {"is_streaming": true, "sources": ["rate"], "operators": [], "columns": [], "is_complete": true}}}, "restores_from": null, "is_other_lineage": false, "keeps_run": false, "takes_savepoint": true, "path_source": null, "facts": {"is_new": false, "is_running": true, "configuration_changed": true, "query_changed": false, "on_query_change": "reset"}, "query_places": [], "setup_places": []}], "errors": [], "notes": [], "check_ids": ["st_01a21da77d1274d1bf405c50720e6ee4"]}',1795793845528351,1795793845953992,1795793847319241);
CREATE TABLE event_generations (
	generation INTEGER NOT NULL, 
	server TEXT NOT NULL, 
	began_at BIGINT NOT NULL, 
	CONSTRAINT event_generations_key PRIMARY KEY (generation)
);
CREATE TABLE events (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	generation INTEGER NOT NULL, 
	xid BIGINT NOT NULL, 
	entity TEXT NOT NULL, 
	entity_id TEXT NOT NULL, 
	owner TEXT, 
	source TEXT, 
	target TEXT NOT NULL, 
	at BIGINT NOT NULL, 
	actor TEXT NOT NULL, 
	detail JSON NOT NULL
);
INSERT INTO "events" VALUES(1,0,0,'node','no_01a21da7767e7416ba38405b7a7abc67',NULL,NULL,'up',1795793843854569,'no_01a21da7767e7416ba38405b7a7abc67','{}');
INSERT INTO "events" VALUES(2,0,0,'session','se_01a21da7774e72669ffd51e459defae6','anonymous',NULL,'not_started',1795793844098894,'anonymous','{}');
INSERT INTO "events" VALUES(3,0,0,'statement','st_01a21da7778374f1a07633fc687dc077','anonymous',NULL,'waiting',1795793844110423,'anonymous','{}');
INSERT INTO "events" VALUES(4,0,0,'deployment','dp_01a21da7778e726e8506f06071f77b1a','anonymous',NULL,'checking',1795793844112584,'anonymous','{}');
INSERT INTO "events" VALUES(5,0,0,'operation','op_01a21da77790738aa3eb261ce48a7d24','anonymous',NULL,'pending',1795793844114092,'anonymous','{"kind": "plan", "ref": "dp_01a21da7778e726e8506f06071f77b1a"}');
INSERT INTO "events" VALUES(6,0,0,'operation','op_01a21da77790738aa3eb261ce48a7d24','anonymous','pending','claimed',1795793844157664,'no_01a21da7767e7416ba38405b7a7abc67','{"node": "no_01a21da7767e7416ba38405b7a7abc67", "epoch": 1}');
INSERT INTO "events" VALUES(7,0,0,'session','se_01a21da7774e72669ffd51e459defae6','anonymous','not_started','starting',1795793844343623,'no_01a21da7767e7416ba38405b7a7abc67','{"epoch": 1}');
INSERT INTO "events" VALUES(8,0,0,'session','se_01a21da7774e72669ffd51e459defae6','anonymous','starting','running',1795793844373024,'driver:se_01a21da7774e72669ffd51e459defae6:1','{"epoch": 1}');
INSERT INTO "events" VALUES(9,0,0,'statement','st_01a21da7778374f1a07633fc687dc077','anonymous','waiting','launched',1795793844407614,'driver:se_01a21da7774e72669ffd51e459defae6:1','{}');
INSERT INTO "events" VALUES(10,0,0,'statement','st_01a21da7778374f1a07633fc687dc077','anonymous','launched','running',1795793844419162,'driver:se_01a21da7774e72669ffd51e459defae6:1','{}');
INSERT INTO "events" VALUES(11,0,0,'statement','st_01a21da7778374f1a07633fc687dc077','anonymous','running','success',1795793844639613,'driver:se_01a21da7774e72669ffd51e459defae6:1','{}');
INSERT INTO "events" VALUES(12,0,0,'deployment','dp_01a21da7778e726e8506f06071f77b1a','anonymous','checking','planned',1795793844740837,'no_01a21da7767e7416ba38405b7a7abc67','{}');
INSERT INTO "events" VALUES(13,0,0,'operation','op_01a21da77790738aa3eb261ce48a7d24','anonymous','claimed','done',1795793844741829,'no_01a21da7767e7416ba38405b7a7abc67','{}');
INSERT INTO "events" VALUES(14,0,0,'deployment','dp_01a21da7778e726e8506f06071f77b1a','anonymous','planned','applying',1795793844821997,'anonymous','{}');
INSERT INTO "events" VALUES(15,0,0,'job','jb_01a21da77a57717b85ac76a1352126b6','anonymous',NULL,'deploying',1795793844825357,'anonymous','{"name": "job"}');
INSERT INTO "events" VALUES(16,0,0,'job_change','jc_01a21da77a5c73ec9b04d9c5475e0684','anonymous',NULL,'planned',1795793844830735,'anonymous','{"job": "job", "decision": "start-clean"}');
INSERT INTO "events" VALUES(17,0,0,'operation','op_01a21da77a5e7139921f444b75d46fea','anonymous',NULL,'pending',1795793844831053,'anonymous','{"kind": "job_change", "ref": "jc_01a21da77a5c73ec9b04d9c5475e0684"}');
INSERT INTO "events" VALUES(18,0,0,'operation','op_01a21da77a5e7139921f444b75d46fea','anonymous','pending','claimed',1795793844839973,'no_01a21da7767e7416ba38405b7a7abc67','{"node": "no_01a21da7767e7416ba38405b7a7abc67", "epoch": 1}');
INSERT INTO "events" VALUES(19,0,0,'job_change','jc_01a21da77a5c73ec9b04d9c5475e0684','anonymous','planned','stopped',1795793844844806,'no_01a21da7767e7416ba38405b7a7abc67','{"job": "job"}');
INSERT INTO "events" VALUES(20,0,0,'job_change','jc_01a21da77a5c73ec9b04d9c5475e0684','anonymous','stopped','verified',1795793844847509,'no_01a21da7767e7416ba38405b7a7abc67','{"job": "job"}');
INSERT INTO "events" VALUES(21,0,0,'job_change','jc_01a21da77a5c73ec9b04d9c5475e0684','anonymous','verified','restored',1795793844849885,'no_01a21da7767e7416ba38405b7a7abc67','{"job": "job"}');
INSERT INTO "events" VALUES(22,0,0,'stream','sq_01a21da77a7571e3b53b20c1f094bf53','anonymous',NULL,'starting',1795793844858182,'no_01a21da7767e7416ba38405b7a7abc67','{"name": "job.job", "session": "se_01a21da7774e72669ffd51e459defae6"}');
INSERT INTO "events" VALUES(23,0,0,'job_change','jc_01a21da77a5c73ec9b04d9c5475e0684','anonymous','restored','started',1795793844884583,'no_01a21da7767e7416ba38405b7a7abc67','{"job": "job"}');
INSERT INTO "events" VALUES(24,0,0,'stream','sq_01a21da77a7571e3b53b20c1f094bf53','anonymous','starting','running',1795793844978098,'driver:se_01a21da7774e72669ffd51e459defae6:1','{"run": "run"}');
INSERT INTO "events" VALUES(25,0,0,'job_change','jc_01a21da77a5c73ec9b04d9c5475e0684','anonymous','started','proven',1795793845160870,'no_01a21da7767e7416ba38405b7a7abc67','{"job": "job"}');
INSERT INTO "events" VALUES(26,0,0,'statement','st_01a21da77bb270f695f8b09745f519f2','anonymous',NULL,'waiting',1795793845172940,'anonymous','{}');
INSERT INTO "events" VALUES(27,0,0,'statement','st_01a21da77bb270f695f8b09745f519f2','anonymous','waiting','launched',1795793845176947,'driver:se_01a21da7774e72669ffd51e459defae6:1','{}');
INSERT INTO "events" VALUES(28,0,0,'statement','st_01a21da77bb270f695f8b09745f519f2','anonymous','launched','running',1795793845196827,'driver:se_01a21da7774e72669ffd51e459defae6:1','{}');
INSERT INTO "events" VALUES(29,0,0,'statement','st_01a21da77bb270f695f8b09745f519f2','anonymous','running','success',1795793845228661,'driver:se_01a21da7774e72669ffd51e459defae6:1','{}');
INSERT INTO "events" VALUES(30,0,0,'job','jb_01a21da77a57717b85ac76a1352126b6','anonymous','deploying','running',1795793845436171,'no_01a21da7767e7416ba38405b7a7abc67','{}');
INSERT INTO "events" VALUES(31,0,0,'job_change','jc_01a21da77a5c73ec9b04d9c5475e0684','anonymous','proven','applied',1795793845439478,'no_01a21da7767e7416ba38405b7a7abc67','{"job": "job"}');
INSERT INTO "events" VALUES(32,0,0,'deployment','dp_01a21da7778e726e8506f06071f77b1a','anonymous','applying','applied',1795793845441446,'no_01a21da7767e7416ba38405b7a7abc67','{}');
INSERT INTO "events" VALUES(33,0,0,'operation','op_01a21da77a5e7139921f444b75d46fea','anonymous','claimed','done',1795793845476718,'no_01a21da7767e7416ba38405b7a7abc67','{}');
INSERT INTO "events" VALUES(34,0,0,'statement','st_01a21da77d1274d1bf405c50720e6ee4','anonymous',NULL,'waiting',1795793845527496,'anonymous','{}');
INSERT INTO "events" VALUES(35,0,0,'deployment','dp_01a21da77d187197a134e3880e4cba04','anonymous',NULL,'checking',1795793845528474,'anonymous','{}');
INSERT INTO "events" VALUES(36,0,0,'operation','op_01a21da77d187197a134e3899f9e4cb5','anonymous',NULL,'pending',1795793845528717,'anonymous','{"kind": "plan", "ref": "dp_01a21da77d187197a134e3880e4cba04"}');
INSERT INTO "events" VALUES(37,0,0,'statement','st_01a21da77d1274d1bf405c50720e6ee4','anonymous','waiting','launched',1795793845627490,'driver:se_01a21da7774e72669ffd51e459defae6:1','{}');
INSERT INTO "events" VALUES(38,0,0,'operation','op_01a21da77d187197a134e3899f9e4cb5','anonymous','pending','claimed',1795793845637712,'no_01a21da7767e7416ba38405b7a7abc67','{"node": "no_01a21da7767e7416ba38405b7a7abc67", "epoch": 1}');
INSERT INTO "events" VALUES(39,0,0,'statement','st_01a21da77d1274d1bf405c50720e6ee4','anonymous','launched','running',1795793845646111,'driver:se_01a21da7774e72669ffd51e459defae6:1','{}');
INSERT INTO "events" VALUES(40,0,0,'statement','st_01a21da77d1274d1bf405c50720e6ee4','anonymous','running','success',1795793845650074,'driver:se_01a21da7774e72669ffd51e459defae6:1','{}');
INSERT INTO "events" VALUES(41,0,0,'deployment','dp_01a21da77d187197a134e3880e4cba04','anonymous','checking','planned',1795793845902163,'no_01a21da7767e7416ba38405b7a7abc67','{}');
INSERT INTO "events" VALUES(42,0,0,'operation','op_01a21da77d187197a134e3899f9e4cb5','anonymous','claimed','done',1795793845902710,'no_01a21da7767e7416ba38405b7a7abc67','{}');
INSERT INTO "events" VALUES(43,0,0,'deployment','dp_01a21da77d187197a134e3880e4cba04','anonymous','planned','applying',1795793845954144,'anonymous','{}');
INSERT INTO "events" VALUES(44,0,0,'job_change','jc_01a21da77ec6738ebdbe0c529b75a5cb','anonymous',NULL,'planned',1795793845959478,'anonymous','{"job": "job", "decision": "restart-from-savepoint"}');
INSERT INTO "events" VALUES(45,0,0,'operation','op_01a21da77ec77080aeb812b884853626','anonymous',NULL,'pending',1795793845959737,'anonymous','{"kind": "job_change", "ref": "jc_01a21da77ec6738ebdbe0c529b75a5cb"}');
INSERT INTO "events" VALUES(46,0,0,'job','jb_01a21da77a57717b85ac76a1352126b6','anonymous','running','deploying',1795793845961400,'anonymous','{"deployment": "dp_01a21da77d187197a134e3880e4cba04"}');
INSERT INTO "events" VALUES(47,0,0,'operation','op_01a21da77ec77080aeb812b884853626','anonymous','pending','claimed',1795793845968501,'no_01a21da7767e7416ba38405b7a7abc67','{"node": "no_01a21da7767e7416ba38405b7a7abc67", "epoch": 1}');
INSERT INTO "events" VALUES(48,0,0,'stream','sq_01a21da77a7571e3b53b20c1f094bf53','anonymous','running','stopping',1795793845974786,'no_01a21da7767e7416ba38405b7a7abc67','{"code": "job_changed", "reason": "its job was stopped or changed"}');
INSERT INTO "events" VALUES(49,0,0,'job_change','jc_01a21da77ec6738ebdbe0c529b75a5cb','anonymous','planned','stop_wanted',1795793845975878,'no_01a21da7767e7416ba38405b7a7abc67','{"job": "job"}');
INSERT INTO "events" VALUES(50,0,0,'stream','sq_01a21da77a7571e3b53b20c1f094bf53','anonymous','stopping','stopped',1795793845995138,'driver:se_01a21da7774e72669ffd51e459defae6:1','{"code": "job_changed", "reason": "its job was stopped or changed"}');
INSERT INTO "events" VALUES(51,0,0,'job_change','jc_01a21da77ec6738ebdbe0c529b75a5cb','anonymous','stop_wanted','stopped',1795793846236595,'no_01a21da7767e7416ba38405b7a7abc67','{"job": "job"}');
INSERT INTO "events" VALUES(52,0,0,'savepoint','sp_01a21da77fe2731da91b5c31fc476ad3','anonymous',NULL,'copying',1795793846244642,'anonymous','{"job": "jb_01a21da77a57717b85ac76a1352126b6", "version": 1, "place": "/srv/headrace/state/savepoints/job/1/sp_01a21da77fe2731da91b5c31fc476ad3"}');
INSERT INTO "events" VALUES(53,0,0,'statement','st_01a21da77fe57008a186e68fb9e025d0','anonymous',NULL,'waiting',1795793846245721,'anonymous','{}');
INSERT INTO "events" VALUES(54,0,0,'statement','st_01a21da77fe57008a186e68fb9e025d0','anonymous','waiting','launched',1795793846250135,'driver:se_01a21da7774e72669ffd51e459defae6:1','{}');
INSERT INTO "events" VALUES(55,0,0,'statement','st_01a21da77fe57008a186e68fb9e025d0','anonymous','launched','running',1795793846255077,'driver:se_01a21da7774e72669ffd51e459defae6:1','{}');
INSERT INTO "events" VALUES(56,0,0,'statement','st_01a21da77fe57008a186e68fb9e025d0','anonymous','running','success',1795793846308021,'driver:se_01a21da7774e72669ffd51e459defae6:1','{}');
INSERT INTO "events" VALUES(57,0,0,'savepoint','sp_01a21da77fe2731da91b5c31fc476ad3','anonymous','copying','verified',1795793846502082,'no_01a21da7767e7416ba38405b7a7abc67','{}');
INSERT INTO "events" VALUES(58,0,0,'job_change','jc_01a21da77ec6738ebdbe0c529b75a5cb','anonymous','stopped','verified',1795793846502691,'no_01a21da7767e7416ba38405b7a7abc67','{"job": "job"}');
INSERT INTO "events" VALUES(59,0,0,'statement','st_01a21da780ee7182a5d511c9f07abf8d','anonymous',NULL,'waiting',1795793846510889,'anonymous','{}');
INSERT INTO "events" VALUES(60,0,0,'statement','st_01a21da780ee7182a5d511c9f07abf8d','anonymous','waiting','launched',1795793846523111,'driver:se_01a21da7774e72669ffd51e459defae6:1','{}');
INSERT INTO "events" VALUES(61,0,0,'statement','st_01a21da780ee7182a5d511c9f07abf8d','anonymous','launched','running',1795793846525775,'driver:se_01a21da7774e72669ffd51e459defae6:1','{}');
INSERT INTO "events" VALUES(62,0,0,'statement','st_01a21da780ee7182a5d511c9f07abf8d','anonymous','running','success',1795793846529186,'driver:se_01a21da7774e72669ffd51e459defae6:1','{}');
INSERT INTO "events" VALUES(63,0,0,'job_change','jc_01a21da77ec6738ebdbe0c529b75a5cb','anonymous','verified','restored',1795793846773126,'no_01a21da7767e7416ba38405b7a7abc67','{"job": "job"}');
INSERT INTO "events" VALUES(64,0,0,'stream','sq_01a21da781f87542b5840d9c62729984','anonymous',NULL,'starting',1795793846777945,'no_01a21da7767e7416ba38405b7a7abc67','{"name": "job.job", "session": "se_01a21da7774e72669ffd51e459defae6"}');
INSERT INTO "events" VALUES(65,0,0,'job_change','jc_01a21da77ec6738ebdbe0c529b75a5cb','anonymous','restored','started',1795793846782855,'no_01a21da7767e7416ba38405b7a7abc67','{"job": "job"}');
INSERT INTO "events" VALUES(66,0,0,'stream','sq_01a21da781f87542b5840d9c62729984','anonymous','starting','running',1795793846815538,'driver:se_01a21da7774e72669ffd51e459defae6:1','{"run": "run"}');
INSERT INTO "events" VALUES(67,0,0,'job_change','jc_01a21da77ec6738ebdbe0c529b75a5cb','anonymous','started','proven',1795793847043316,'no_01a21da7767e7416ba38405b7a7abc67','{"job": "job"}');
INSERT INTO "events" VALUES(68,0,0,'statement','st_01a21da7830976658a39227627f37085','anonymous',NULL,'waiting',1795793847049983,'anonymous','{}');
INSERT INTO "events" VALUES(69,0,0,'statement','st_01a21da7830976658a39227627f37085','anonymous','waiting','launched',1795793847058445,'driver:se_01a21da7774e72669ffd51e459defae6:1','{}');
INSERT INTO "events" VALUES(70,0,0,'statement','st_01a21da7830976658a39227627f37085','anonymous','launched','running',1795793847062648,'driver:se_01a21da7774e72669ffd51e459defae6:1','{}');
INSERT INTO "events" VALUES(71,0,0,'statement','st_01a21da7830976658a39227627f37085','anonymous','running','success',1795793847067294,'driver:se_01a21da7774e72669ffd51e459defae6:1','{}');
INSERT INTO "events" VALUES(72,0,0,'job','jb_01a21da77a57717b85ac76a1352126b6','anonymous','deploying','running',1795793847315375,'no_01a21da7767e7416ba38405b7a7abc67','{}');
INSERT INTO "events" VALUES(73,0,0,'job_change','jc_01a21da77ec6738ebdbe0c529b75a5cb','anonymous','proven','applied',1795793847318042,'no_01a21da7767e7416ba38405b7a7abc67','{"job": "job"}');
INSERT INTO "events" VALUES(74,0,0,'deployment','dp_01a21da77d187197a134e3880e4cba04','anonymous','applying','applied',1795793847319418,'no_01a21da7767e7416ba38405b7a7abc67','{}');
INSERT INTO "events" VALUES(75,0,0,'operation','op_01a21da77ec77080aeb812b884853626','anonymous','claimed','done',1795793847322879,'no_01a21da7767e7416ba38405b7a7abc67','{}');
INSERT INTO "events" VALUES(76,0,0,'node','no_01a21da7767e7416ba38405b7a7abc67',NULL,'up','gone',1795793847552791,'no_01a21da7767e7416ba38405b7a7abc67','{}');
INSERT INTO "events" VALUES(77,0,0,'node','no_01a21da7851c76f68768af65cab4bdde',NULL,NULL,'up',1795793847593265,'no_01a21da7851c76f68768af65cab4bdde','{}');
INSERT INTO "events" VALUES(78,0,0,'session','se_01a21da78546708cb03b8e0fa55adb7d','anonymous',NULL,'not_started',1795793847633251,'anonymous','{}');
INSERT INTO "events" VALUES(79,0,0,'session','se_01a21da78546708cb03b8e0fa55adb7d','anonymous','not_started','starting',1795793847935988,'no_01a21da7851c76f68768af65cab4bdde','{"epoch": 1}');
INSERT INTO "events" VALUES(80,0,0,'session','se_01a21da78546708cb03b8e0fa55adb7d','anonymous','starting','running',1795793847995641,'driver:se_01a21da78546708cb03b8e0fa55adb7d:1','{"epoch": 1}');
INSERT INTO "events" VALUES(81,0,0,'statement','st_01a21da786f17038b530d90f9ec1af28','anonymous',NULL,'waiting',1795793848058423,'anonymous','{}');
INSERT INTO "events" VALUES(82,0,0,'statement','st_01a21da786f17038b530d90f9ec1af28','anonymous','waiting','launched',1795793848105526,'driver:se_01a21da78546708cb03b8e0fa55adb7d:1','{}');
INSERT INTO "events" VALUES(83,0,0,'statement','st_01a21da786f17038b530d90f9ec1af28','anonymous','launched','running',1795793848119300,'driver:se_01a21da78546708cb03b8e0fa55adb7d:1','{}');
INSERT INTO "events" VALUES(84,0,0,'statement','st_01a21da786f17038b530d90f9ec1af28','anonymous','running','success',1795793848131441,'driver:se_01a21da78546708cb03b8e0fa55adb7d:1','{}');
INSERT INTO "events" VALUES(85,0,0,'statement','st_01a21da78775752b99266c81e0b97a0b','anonymous',NULL,'waiting',1795793848181822,'anonymous','{}');
INSERT INTO "events" VALUES(86,0,0,'statement','st_01a21da78775752b99266c81e0b97a0b','anonymous','waiting','launched',1795793848187698,'driver:se_01a21da78546708cb03b8e0fa55adb7d:1','{}');
INSERT INTO "events" VALUES(87,0,0,'statement','st_01a21da78775752b99266c81e0b97a0b','anonymous','launched','running',1795793848197398,'driver:se_01a21da78546708cb03b8e0fa55adb7d:1','{}');
INSERT INTO "events" VALUES(88,0,0,'statement','st_01a21da78775752b99266c81e0b97a0b','anonymous','running','failed',1795793848209406,'driver:se_01a21da78546708cb03b8e0fa55adb7d:1','{"failure": {"code": "analysis_error", "message": "The column is unknown."}}');
INSERT INTO "events" VALUES(89,0,0,'statement','st_01a21da787d174ea9cdcfadcb19e6b81','anonymous',NULL,'waiting',1795793848274129,'anonymous','{}');
INSERT INTO "events" VALUES(90,0,0,'session','se_01a21da787d874c1915c953434697434','anonymous',NULL,'not_started',1795793848282794,'anonymous','{}');
INSERT INTO "events" VALUES(91,0,0,'statement','st_01a21da787da765c8e4c35323f94129b','anonymous',NULL,'waiting',1795793848283731,'anonymous','{}');
INSERT INTO "events" VALUES(92,0,0,'session','se_01a21da787d874c1915c953434697434','anonymous','not_started','starting',1795793848322793,'no_01a21da7851c76f68768af65cab4bdde','{"epoch": 1}');
INSERT INTO "events" VALUES(93,0,0,'session','se_01a21da787d874c1915c953434697434','anonymous','starting','running',1795793848331111,'driver:se_01a21da787d874c1915c953434697434:1','{"epoch": 1}');
INSERT INTO "events" VALUES(94,0,0,'statement','st_01a21da787da765c8e4c35323f94129b','anonymous','waiting','launched',1795793848361048,'driver:se_01a21da787d874c1915c953434697434:1','{}');
INSERT INTO "events" VALUES(95,0,0,'definition','de_01a21da7883f7795aa26178121f2689b','anonymous',NULL,'live',1795793848385000,'anonymous','{"kind": "stream", "name": "clicks"}');
INSERT INTO "events" VALUES(96,0,0,'statement','st_01a21da787da765c8e4c35323f94129b','anonymous','launched','success',1795793848385467,'driver:se_01a21da787d874c1915c953434697434:1','{}');
INSERT INTO "events" VALUES(97,0,0,'session','se_01a21da788757334a6f5e46eaa12cde8','anonymous',NULL,'not_started',1795793848439582,'anonymous','{}');
INSERT INTO "events" VALUES(98,0,0,'session','se_01a21da788757334a6f5e46eaa12cde8','anonymous','not_started','starting',1795793848450071,'no_01a21da7851c76f68768af65cab4bdde','{"epoch": 1}');
INSERT INTO "events" VALUES(99,0,0,'session','se_01a21da788757334a6f5e46eaa12cde8','anonymous','starting','running',1795793848470416,'driver:se_01a21da788757334a6f5e46eaa12cde8:1','{"epoch": 1}');
INSERT INTO "events" VALUES(100,0,0,'statement','st_01a21da7889e75439076d2b1266a8a4b','anonymous',NULL,'waiting',1795793848479210,'anonymous','{}');
INSERT INTO "events" VALUES(101,0,0,'stream','sq_01a21da788ac729badcdee5063a3552a','anonymous',NULL,'starting',1795793848528265,'anonymous','{"name": "adhoc.q0", "session": "se_01a21da788757334a6f5e46eaa12cde8"}');
INSERT INTO "events" VALUES(102,0,0,'statement','st_01a21da7889e75439076d2b1266a8a4b','anonymous','waiting','launched',1795793848585432,'driver:se_01a21da788757334a6f5e46eaa12cde8:1','{}');
INSERT INTO "events" VALUES(103,0,0,'statement','st_01a21da7889e75439076d2b1266a8a4b','anonymous','launched','success',1795793848622723,'driver:se_01a21da788757334a6f5e46eaa12cde8:1','{}');
INSERT INTO "events" VALUES(104,0,0,'stream','sq_01a21da788ac729badcdee5063a3552a','anonymous','starting','running',1795793848649337,'driver:se_01a21da788757334a6f5e46eaa12cde8:1','{"run": "run-1"}');
INSERT INTO "events" VALUES(105,0,0,'session','se_01a21da7896c757585d1c493775248e0','anonymous',NULL,'not_started',1795793848686305,'anonymous','{}');
INSERT INTO "events" VALUES(106,0,0,'session','se_01a21da7896c757585d1c493775248e0','anonymous','not_started','starting',1795793848699434,'no_01a21da7851c76f68768af65cab4bdde','{"epoch": 1}');
INSERT INTO "events" VALUES(107,0,0,'session','se_01a21da7896c757585d1c493775248e0','anonymous','starting','running',1795793848762411,'driver:se_01a21da7896c757585d1c493775248e0:1','{"epoch": 1}');
INSERT INTO "events" VALUES(108,0,0,'statement','st_01a21da789c47348becbefe96520c898','anonymous',NULL,'waiting',1795793848773333,'anonymous','{}');
INSERT INTO "events" VALUES(109,0,0,'statement','st_01a21da789c47348becbefe96520c898','anonymous','waiting','launched',1795793848780081,'driver:se_01a21da7896c757585d1c493775248e0:1','{}');
INSERT INTO "events" VALUES(110,0,0,'materialized_view','mv_01a21da789e8766a8c8735be2d4e06c6','anonymous',NULL,'creating',1795793848812025,'driver:se_01a21da7896c757585d1c493775248e0:1','{"path": ["spark_catalog", "default", "v0"]}');
INSERT INTO "events" VALUES(111,0,0,'transaction','tx_01a21da789ef709187e1acf732858dbc','anonymous',NULL,'prepared',1795793848830785,'driver:se_01a21da7896c757585d1c493775248e0:1','{"statement": "st_01a21da789c47348becbefe96520c898", "target": "`default`.`__mv_v0_1`"}');
INSERT INTO "events" VALUES(112,0,0,'transaction','tx_01a21da789ef709187e1acf732858dbc','anonymous','prepared','begun',1795793848837195,'driver:se_01a21da7896c757585d1c493775248e0:1','{}');
INSERT INTO "events" VALUES(113,0,0,'transaction','tx_01a21da789ef709187e1acf732858dbc','anonymous','begun','committing',1795793848844491,'driver:se_01a21da7896c757585d1c493775248e0:1','{}');
INSERT INTO "events" VALUES(114,0,0,'statement','st_01a21da789c47348becbefe96520c898','anonymous','launched','success',1795793848854086,'driver:se_01a21da7896c757585d1c493775248e0:1','{}');
INSERT INTO "events" VALUES(115,0,0,'transaction','tx_01a21da789ef709187e1acf732858dbc','anonymous','committing','committed',1795793848855963,'driver:se_01a21da7896c757585d1c493775248e0:1','{}');
INSERT INTO "events" VALUES(116,0,0,'materialized_view','mv_01a21da789e8766a8c8735be2d4e06c6','anonymous','creating','active',1795793848857022,'driver:se_01a21da7896c757585d1c493775248e0:1','{"generation": 1, "statement": "st_01a21da789c47348becbefe96520c898"}');
INSERT INTO "events" VALUES(117,0,0,'session','se_01a21da78a1f74a6925722e1497ed776','anonymous',NULL,'not_started',1795793848864372,'anonymous','{}');
INSERT INTO "events" VALUES(118,0,0,'statement','st_01a21da78a207042b31e27f30f0406b8','anonymous',NULL,'waiting',1795793848864970,'anonymous','{}');
INSERT INTO "events" VALUES(119,0,0,'session','se_01a21da78a1f74a6925722e1497ed776','anonymous','not_started','starting',1795793848939729,'no_01a21da7851c76f68768af65cab4bdde','{"epoch": 1}');
INSERT INTO "events" VALUES(120,0,0,'session','se_01a21da78a1f74a6925722e1497ed776','anonymous','starting','running',1795793848959043,'driver:se_01a21da78a1f74a6925722e1497ed776:1','{"epoch": 1}');
INSERT INTO "events" VALUES(121,0,0,'statement','st_01a21da78a207042b31e27f30f0406b8','anonymous','waiting','launched',1795793848971676,'driver:se_01a21da78a1f74a6925722e1497ed776:1','{}');
INSERT INTO "events" VALUES(122,0,0,'transaction','tx_01a21da78ad272bca6c165d7d856e6be','anonymous',NULL,'prepared',1795793849046814,'driver:se_01a21da78a1f74a6925722e1497ed776:1','{"statement": "st_01a21da78a207042b31e27f30f0406b8", "target": "`default`.`__mv_v0_2`"}');
INSERT INTO "events" VALUES(123,0,0,'transaction','tx_01a21da78ad272bca6c165d7d856e6be','anonymous','prepared','begun',1795793849061033,'driver:se_01a21da78a1f74a6925722e1497ed776:1','{}');
INSERT INTO "events" VALUES(124,0,0,'transaction','tx_01a21da78ad272bca6c165d7d856e6be','anonymous','begun','committing',1795793849100757,'driver:se_01a21da78a1f74a6925722e1497ed776:1','{}');
INSERT INTO "events" VALUES(125,0,0,'statement','st_01a21da78a207042b31e27f30f0406b8','anonymous','launched','success',1795793849111178,'driver:se_01a21da78a1f74a6925722e1497ed776:1','{}');
INSERT INTO "events" VALUES(126,0,0,'transaction','tx_01a21da78ad272bca6c165d7d856e6be','anonymous','committing','committed',1795793849112416,'driver:se_01a21da78a1f74a6925722e1497ed776:1','{}');
INSERT INTO "events" VALUES(127,0,0,'materialized_view','mv_01a21da789e8766a8c8735be2d4e06c6','anonymous','active','active',1795793849113077,'driver:se_01a21da78a1f74a6925722e1497ed776:1','{"generation": 2, "statement": "st_01a21da78a207042b31e27f30f0406b8"}');
INSERT INTO "events" VALUES(128,0,0,'catalog_intent','ci_01a21da78b1972eab9bd9bb2cb900d62','anonymous',NULL,'pending',1795793849115989,'driver:se_01a21da78a1f74a6925722e1497ed776:1','{"action": "drop_generation", "view": "mv_01a21da789e8766a8c8735be2d4e06c6", "generation": 1}');
INSERT INTO "events" VALUES(129,0,0,'node','no_01a21da7851c76f68768af65cab4bdde',NULL,'up','gone',1795793849321171,'no_01a21da7851c76f68768af65cab4bdde','{}');
CREATE TABLE idempotency (
	owner TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	body_hash TEXT NOT NULL, 
	statement_id TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT idempotency_key PRIMARY KEY (owner, "key")
);
INSERT INTO "idempotency" VALUES('anonymous','retried','dd30659f22cad729be64f5f34b8602e0788accdd4ea9a8539dfe5369dc89de7a','st_01a21da787d174ea9cdcfadcb19e6b81',1795793848275486);
CREATE TABLE job_changes (
	id TEXT NOT NULL, 
	deployment_id TEXT NOT NULL, 
	job_id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	name TEXT NOT NULL, 
	step VARCHAR(16) NOT NULL, 
	record JSON NOT NULL, 
	failure JSON, 
	created_at BIGINT NOT NULL, 
	stepped_at BIGINT NOT NULL, 
	ended_at BIGINT, 
	CONSTRAINT job_changes_key PRIMARY KEY (id), 
	CONSTRAINT job_changes_ended CHECK ((ended_at IS NOT NULL) = (step IN ('applied', 'failed'))), 
	CONSTRAINT job_changes_known_step CHECK (step IN ('planned', 'stop_wanted', 'stopped', 'verified', 'restored', 'started', 'proven', 'undoing', 'applied', 'failed'))
);
INSERT INTO "job_changes" VALUES('jc_01a21da77a5c73ec9b04d9c5475e0684','dp_01a21da7778e726e8506f06071f77b1a','jb_01a21da77a57717b85ac76a1352126b6','anonymous','job','applied','{"action": "deploy", "decision": "start-clean", "reason": "The job is new.", "new_version_id": "jv_01a21da77a5b75a197f60892d9faa791", "new_run": "1/8f8f02df50bd419d9d70db5016191601", "old_version_id": null, "old_run": null, "old_query_ids": [], "was": null, "takes_savepoint": false, "savepoint_id": null, "restores": false, "restore_id": null, "is_other_lineage": false, "task_id": "st_01a21da77bb270f695f8b09745f519f2", "task_attempts": 1, "new_query_ids": ["sq_01a21da77a7571e3b53b20c1f094bf53"], "base_batches": {"sq_01a21da77a7571e3b53b20c1f094bf53": null}, "written": []}',NULL,1795793844829563,1795793845439282,1795793845439284);
INSERT INTO "job_changes" VALUES('jc_01a21da77ec6738ebdbe0c529b75a5cb','dp_01a21da77d187197a134e3880e4cba04','jb_01a21da77a57717b85ac76a1352126b6','anonymous','job','applied','{"action": "deploy", "decision": "restart-from-savepoint", "reason": "The configuration has changed (trigger), and the query has not. The job continues from the savepoint with which it is stopped.", "new_version_id": "jv_01a21da77ec376f985deee614ce24530", "new_run": "1/f082411e91f8430784e4ea23c7ba33cf", "old_version_id": "jv_01a21da77a5b75a197f60892d9faa791", "old_run": "1/8f8f02df50bd419d9d70db5016191601", "old_query_ids": ["sq_01a21da77a7571e3b53b20c1f094bf53"], "was": "running", "takes_savepoint": true, "savepoint_id": "sp_01a21da77fe2731da91b5c31fc476ad3", "restores": true, "restore_id": null, "is_other_lineage": false, "task_id": "st_01a21da7830976658a39227627f37085", "task_attempts": 1, "new_query_ids": ["sq_01a21da781f87542b5840d9c62729984"], "base_batches": {"sq_01a21da781f87542b5840d9c62729984": 0}, "written": []}',NULL,1795793845959141,1795793847317927,1795793847317928);
CREATE TABLE job_tasks (
	statement_id TEXT NOT NULL, 
	task JSON NOT NULL, 
	outcome JSON, 
	CONSTRAINT job_tasks_key PRIMARY KEY (statement_id)
);
INSERT INTO "job_tasks" VALUES('st_01a21da7778374f1a07633fc687dc077','{"kind": "check", "state_location": "/srv/headrace/state", "jobs": [{"name": "job", "queries": [{"name": "job", "directory": "", "spec": {"text": "SAVE STREAM `job` TO `files` IDENTIFIED BY `job`", "definitions": ["CREATE STREAM numbers FROM rate", "CREATE SINK `files` TO `json`"], "sink": "json", "path": null, "checkpoint": null, "views": [], "conf": {}, "scope": null, "view": null, "rows": {"setup": [], "sql": "SELECT value FROM numbers", "code": null, "metadata": null}}}], "checkpoint": null, "savepoints": []}]}','{"kind": "check", "jobs": [{"name": "job", "problems": [], "notes": [], "summaries": {"job": {"is_streaming": true, "sources": ["rate"], "operators": [], "columns": [], "is_complete": true}}, "used_logs": [], "found_checkpoint": false, "found_savepoint": null}], "location_problem": null}');
INSERT INTO "job_tasks" VALUES('st_01a21da77bb270f695f8b09745f519f2','{"kind": "manifests", "texts": {"/srv/headrace/state/manifests/job.yaml": "description: A job\nmeta:\n  query-create-timestamp: ''2026-11-27 15:37:24''\n  query-id: 280f22bc-1c9c-4494-b2a2-d7a89082cc42\n  query-version: 1\nmetadata-columns: false\nname: job\nsql: SELECT value FROM numbers\ntarget-table: files\n"}, "deleted": []}','{"kind": "done"}');
INSERT INTO "job_tasks" VALUES('st_01a21da77d1274d1bf405c50720e6ee4','{"kind": "check", "state_location": "/srv/headrace/state", "jobs": [{"name": "job", "queries": [{"name": "job", "directory": "", "spec": {"text": "SAVE STREAM `job` TO `files` IDENTIFIED BY `job` TRIGGER 2 SECONDS", "definitions": ["CREATE STREAM numbers FROM rate", "CREATE SINK `files` TO `json`"], "sink": "json", "path": null, "checkpoint": null, "views": [], "conf": {}, "scope": null, "view": null, "rows": {"setup": [], "sql": "SELECT value FROM numbers", "code": null, "metadata": null}}}], "checkpoint": null, "savepoints": []}]}','{"kind": "check", "jobs": [{"name": "job", "problems": [], "notes": [], "summaries": {"job": {"is_streaming": true, "sources": ["rate"], "operators": [], "columns": [], "is_complete": true}}, "used_logs": [], "found_checkpoint": false, "found_savepoint": null}], "location_problem": null}');
INSERT INTO "job_tasks" VALUES('st_01a21da77fe57008a186e68fb9e025d0','{"kind": "savepoint", "checkpoint": "/srv/headrace/state/checkpoints/job/1/8f8f02df50bd419d9d70db5016191601", "queries": [""], "savepoint": "/srv/headrace/state/savepoints/job/1/sp_01a21da77fe2731da91b5c31fc476ad3"}','{"kind": "savepoint", "content": {"files": 1, "bytes": 1, "checksum": "c", "spark_version": "4.1.3", "is_clean": true, "last_batches": {"": 0}}}');
INSERT INTO "job_tasks" VALUES('st_01a21da780ee7182a5d511c9f07abf8d','{"kind": "restore", "savepoint": "/srv/headrace/state/savepoints/job/1/sp_01a21da77fe2731da91b5c31fc476ad3", "checkpoint": "/srv/headrace/state/checkpoints/job/1/f082411e91f8430784e4ea23c7ba33cf"}','{"kind": "done"}');
INSERT INTO "job_tasks" VALUES('st_01a21da7830976658a39227627f37085','{"kind": "manifests", "texts": {"/srv/headrace/state/manifests/job.yaml": "description: A job\nmeta:\n  query-create-timestamp: ''2026-11-27 15:37:24''\n  query-id: 280f22bc-1c9c-4494-b2a2-d7a89082cc42\n  query-version: 1\nmetadata-columns: false\nname: job\nsql: SELECT value FROM numbers\ntarget-table: files\ntrigger: 2 seconds\n"}, "deleted": []}','{"kind": "done"}');
CREATE TABLE job_versions (
	id TEXT NOT NULL, 
	job_id TEXT NOT NULL, 
	version INTEGER NOT NULL, 
	revision INTEGER NOT NULL, 
	query_id TEXT NOT NULL, 
	query_created_at BIGINT NOT NULL, 
	spec JSON NOT NULL, 
	decision VARCHAR(32) NOT NULL, 
	reason TEXT NOT NULL, 
	from_state TEXT, 
	last_run TEXT, 
	outcome TEXT, 
	deployment_id TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT job_versions_key PRIMARY KEY (id)
);
INSERT INTO "job_versions" VALUES('jv_01a21da77a5b75a197f60892d9faa791','jb_01a21da77a57717b85ac76a1352126b6',1,1,'280f22bc-1c9c-4494-b2a2-d7a89082cc42',1795793844828527,'{"text": "description: A job\nmetadata-columns: false\nname: job\nsql: SELECT value FROM numbers\ntarget-table: files\n", "written": {"name": "job", "description": "A job", "target-table": "files", "sql": "SELECT value FROM numbers", "metadata-columns": false}, "manifest": {"name": "job", "description": "A job", "target-table": "files", "sql": "SELECT value FROM numbers", "spark-properties": {}, "metadata-columns": false, "on-query-change": "reset"}, "definitions": {"streams": ["CREATE STREAM numbers FROM rate"], "sinks": ["CREATE SINK `files` TO `json`"], "setup": []}, "description": "A job", "query_fingerprint": "89eaf25f943d5a285df6db326af183fce6431598edd7e9b51752c68c1a125eb9", "configuration_fingerprint": "aa3bec8e99c97cca46e3face5487ce977370474ea887f0186c9f63c7f22e0551", "session": {"name": "jobs-default", "spec": {"profile": "default", "conf": {}, "catalog": null, "database": null, "jars": [], "files": [], "py_files": []}}, "queries": [{"name": "job", "directory": "", "spec": {"text": "SAVE STREAM `job` TO `files` IDENTIFIED BY `job`", "definitions": ["CREATE STREAM numbers FROM rate", "CREATE SINK `files` TO `json`"], "sink": "json", "path": "/srv/headrace/jobs/streams/jobs-anonymous/job-352126b6/1", "checkpoint": null, "views": [], "conf": {}, "scope": null, "view": null, "rows": {"setup": [], "sql": "SELECT value FROM numbers", "code": null, "metadata": null}}, "needs_path": true}], "summaries": {"job": {"is_streaming": true, "sources": ["rate"], "operators": [], "columns": [], "is_complete": true}}}','start-clean','The job is new.',NULL,'1/8f8f02df50bd419d9d70db5016191601','deployed','dp_01a21da7778e726e8506f06071f77b1a',1795793844828529);
INSERT INTO "job_versions" VALUES('jv_01a21da77ec376f985deee614ce24530','jb_01a21da77a57717b85ac76a1352126b6',1,2,'280f22bc-1c9c-4494-b2a2-d7a89082cc42',1795793844828527,'{"text": "description: A job\nmetadata-columns: false\nname: job\nsql: SELECT value FROM numbers\ntarget-table: files\ntrigger: 2 seconds\n", "written": {"name": "job", "description": "A job", "target-table": "files", "sql": "SELECT value FROM numbers", "metadata-columns": false, "trigger": "2 seconds"}, "manifest": {"name": "job", "description": "A job", "target-table": "files", "sql": "SELECT value FROM numbers", "spark-properties": {}, "trigger": "2 seconds", "metadata-columns": false, "on-query-change": "reset"}, "definitions": {"streams": ["CREATE STREAM numbers FROM rate"], "sinks": ["CREATE SINK `files` TO `json`"], "setup": []}, "description": "A job", "query_fingerprint": "89eaf25f943d5a285df6db326af183fce6431598edd7e9b51752c68c1a125eb9", "configuration_fingerprint": "cdf2ea7bba22500f279f52c6275eb7cdff848e50676e2d7175d9bf450202453d", "session": {"name": "jobs-default", "spec": {"profile": "default", "conf": {}, "catalog": null, "database": null, "jars": [], "files": [], "py_files": []}}, "queries": [{"name": "job", "directory": "", "spec": {"text": "SAVE STREAM `job` TO `files` IDENTIFIED BY `job` TRIGGER 2 SECONDS", "definitions": ["CREATE STREAM numbers FROM rate", "CREATE SINK `files` TO `json`"], "sink": "json", "path": "/srv/headrace/jobs/streams/jobs-anonymous/job-352126b6/1", "checkpoint": null, "views": [], "conf": {}, "scope": null, "view": null, "rows": {"setup": [], "sql": "SELECT value FROM numbers", "code": null, "metadata": null}}, "needs_path": true}], "summaries": {"job": {"is_streaming": true, "sources": ["rate"], "operators": [], "columns": [], "is_complete": true}}}','restart-from-savepoint','The configuration has changed (trigger), and the query has not. The job continues from the savepoint with which it is stopped.','sp_01a21da77fe2731da91b5c31fc476ad3','1/f082411e91f8430784e4ea23c7ba33cf','deployed','dp_01a21da77d187197a134e3880e4cba04',1795793845958387);
CREATE TABLE jobs (
	id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	name TEXT NOT NULL, 
	name_key TEXT NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	generation INTEGER NOT NULL, 
	state_location TEXT NOT NULL, 
	state_place TEXT, 
	version_id TEXT, 
	run TEXT, 
	change_id TEXT, 
	failure JSON, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	ended_at BIGINT, 
	CONSTRAINT jobs_key PRIMARY KEY (id), 
	CONSTRAINT jobs_ended CHECK ((ended_at IS NOT NULL) = (state = 'deleted')), 
	CONSTRAINT jobs_known_state CHECK (state IN ('deploying', 'running', 'stopping', 'stopped', 'failed', 'deleted'))
);
INSERT INTO "jobs" VALUES('jb_01a21da77a57717b85ac76a1352126b6','anonymous','job','job','running',4,'/srv/headrace/state','file:/srv/headrace/state','jv_01a21da77ec376f985deee614ce24530','1/f082411e91f8430784e4ea23c7ba33cf',NULL,NULL,1795793844824661,1795793847315240,NULL);
CREATE TABLE limit_locks (
	counted TEXT NOT NULL, 
	CONSTRAINT limit_locks_key PRIMARY KEY (counted)
);
INSERT INTO "limit_locks" VALUES('sessions');
INSERT INTO "limit_locks" VALUES('waiting');
INSERT INTO "limit_locks" VALUES('running');
CREATE TABLE materialized_views (
	id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	name TEXT NOT NULL, 
	name_key TEXT NOT NULL, 
	identity TEXT NOT NULL, 
	target TEXT NOT NULL, 
	text TEXT NOT NULL, 
	rows JSON NOT NULL, 
	statement_id TEXT NOT NULL, 
	writer_id TEXT NOT NULL, 
	writer_attempt INTEGER, 
	generation INTEGER NOT NULL, 
	began_at BIGINT NOT NULL, 
	current_generation INTEGER, 
	fresh_as_of BIGINT, 
	query_id TEXT, 
	created_at BIGINT NOT NULL, 
	ended_at BIGINT, 
	CONSTRAINT materialized_views_key PRIMARY KEY (id)
);
INSERT INTO "materialized_views" VALUES('mv_01a21da789e8766a8c8735be2d4e06c6','anonymous','v0','v0','metastore','`default`.`v0`','CREATE MATERIALIZED VIEW v0  AS SELECT 1 AS a','{"path": ["spark_catalog", "default", "v0"], "storage": "generations", "scope": {"catalog": "spark_catalog", "namespace": ["default"]}}','st_01a21da78a207042b31e27f30f0406b8','st_01a21da78a207042b31e27f30f0406b8',1,2,1795793849012800,2,1795793849012800,NULL,1795793848810013,NULL);
CREATE TABLE nodes (
	registration INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	id TEXT NOT NULL, 
	address TEXT NOT NULL, 
	version TEXT NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	profiles JSON NOT NULL, 
	backends JSON NOT NULL, 
	started_at BIGINT NOT NULL, 
	present_since BIGINT NOT NULL, 
	lease_until BIGINT NOT NULL, 
	ended_at BIGINT, 
	host JSON, 
	link_version INTEGER DEFAULT '1' NOT NULL, 
	confirmed_gone_at BIGINT, 
	event_process TEXT, 
	CONSTRAINT nodes_ended CHECK ((ended_at IS NOT NULL) = (state = 'gone')), 
	CONSTRAINT nodes_known_state CHECK (state IN ('up', 'draining', 'gone'))
);
INSERT INTO "nodes" VALUES(1,'no_01a21da7767e7416ba38405b7a7abc67','http://127.0.0.1:40093','0.1.0','gone','["default"]','["local"]',1795793843853478,1795793843868653,1795794443868655,1795793847552639,'{"name": "node.example", "machine": "00000000000000000000000000000000", "boot": "00000000-0000-0000-0000-000000000000", "pid_namespace": "pid:[1]", "network_namespace": "net:[1]"}',1,NULL,NULL);
INSERT INTO "nodes" VALUES(2,'no_01a21da7851c76f68768af65cab4bdde','http://127.0.0.1:39483','0.1.0','gone','["default"]','["local"]',1795793847592561,1795793847603613,1795794447603614,1795793849321009,'{"name": "node.example", "machine": "00000000000000000000000000000000", "boot": "00000000-0000-0000-0000-000000000000", "pid_namespace": "pid:[1]", "network_namespace": "net:[1]"}',1,NULL,NULL);
CREATE TABLE operations (
	id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	ref TEXT NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	node_id TEXT, 
	epoch INTEGER DEFAULT '0' NOT NULL, 
	lease_until BIGINT, 
	created_at BIGINT NOT NULL, 
	ended_at BIGINT, 
	CONSTRAINT operations_key PRIMARY KEY (id), 
	CONSTRAINT operations_ended CHECK ((ended_at IS NOT NULL) = (state = 'done')), 
	CONSTRAINT operations_known_state CHECK (state IN ('pending', 'claimed', 'done'))
);
INSERT INTO "operations" VALUES('op_01a21da77790738aa3eb261ce48a7d24','plan','dp_01a21da7778e726e8506f06071f77b1a','done','no_01a21da7767e7416ba38405b7a7abc67',1,NULL,1795793844113163,1795793844741713);
INSERT INTO "operations" VALUES('op_01a21da77a5e7139921f444b75d46fea','job_change','jc_01a21da77a5c73ec9b04d9c5475e0684','done','no_01a21da7767e7416ba38405b7a7abc67',1,NULL,1795793844830944,1795793845476582);
INSERT INTO "operations" VALUES('op_01a21da77d187197a134e3899f9e4cb5','plan','dp_01a21da77d187197a134e3880e4cba04','done','no_01a21da7767e7416ba38405b7a7abc67',1,NULL,1795793845528628,1795793845902601);
INSERT INTO "operations" VALUES('op_01a21da77ec77080aeb812b884853626','job_change','jc_01a21da77ec6738ebdbe0c529b75a5cb','done','no_01a21da7767e7416ba38405b7a7abc67',1,NULL,1795793845959643,1795793847322762);
CREATE TABLE pending_hook_calls (
	statement_id TEXT NOT NULL, 
	session_id TEXT NOT NULL, 
	CONSTRAINT pending_hook_calls_key PRIMARY KEY (statement_id), 
	CONSTRAINT pending_hook_calls_statement_id_exists FOREIGN KEY(statement_id) REFERENCES statements (id), 
	CONSTRAINT pending_hook_calls_session_id_exists FOREIGN KEY(session_id) REFERENCES sessions (id)
);
CREATE TABLE results (
	statement_id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	disposition VARCHAR(16) NOT NULL, 
	spark_schema JSON NOT NULL, 
	row_count BIGINT NOT NULL, 
	byte_count BIGINT NOT NULL, 
	truncated BOOLEAN NOT NULL, 
	chunks INTEGER NOT NULL, 
	location TEXT, 
	data BLOB, 
	expires_at BIGINT NOT NULL, 
	gone_at BIGINT, 
	deletion_failures INTEGER DEFAULT '0' NOT NULL, 
	retry_at BIGINT, 
	holder_session_id TEXT, 
	holder_epoch INTEGER, 
	endpoint TEXT, 
	gone_reason TEXT, 
	CONSTRAINT results_key PRIMARY KEY (statement_id), 
	CONSTRAINT results_statement_id_exists FOREIGN KEY(statement_id) REFERENCES statements (id)
);
INSERT INTO "results" VALUES('st_01a21da7778374f1a07633fc687dc077','anonymous','inline','{"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": true, "metadata": {}}]}',1,4,0,1,NULL,X'FFFFFFFF780000001000000000000A000C000600050008000A000000000104000C000000080008000000040008000000040000000100000014000000100014000800060007000C00000010001000000000000102100000001C0000000400000000000000020000005F30000008000C0008000700080000000000000120000000FFFFFFFF8800000014000000000000000C0016000600050008000C000C0000000003040018000000080000000000000000000A0018000C00040008000A0000003C000000100000000100000000000000000000000200000000000000000000000000000000000000000000000000000004000000000000000000000001000000010000000000000000000000000000000100000000000000FFFFFFFF00000000',1795880244639469,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "results" VALUES('st_01a21da77bb270f695f8b09745f519f2','anonymous','inline','{"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": true, "metadata": {}}]}',1,4,0,1,NULL,X'FFFFFFFF780000001000000000000A000C000600050008000A000000000104000C000000080008000000040008000000040000000100000014000000100014000800060007000C00000010001000000000000102100000001C0000000400000000000000020000005F30000008000C0008000700080000000000000120000000FFFFFFFF8800000014000000000000000C0016000600050008000C000C0000000003040018000000080000000000000000000A0018000C00040008000A0000003C000000100000000100000000000000000000000200000000000000000000000000000000000000000000000000000004000000000000000000000001000000010000000000000000000000000000000100000000000000FFFFFFFF00000000',1795880245228563,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "results" VALUES('st_01a21da77d1274d1bf405c50720e6ee4','anonymous','inline','{"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": true, "metadata": {}}]}',1,4,0,1,NULL,X'FFFFFFFF780000001000000000000A000C000600050008000A000000000104000C000000080008000000040008000000040000000100000014000000100014000800060007000C00000010001000000000000102100000001C0000000400000000000000020000005F30000008000C0008000700080000000000000120000000FFFFFFFF8800000014000000000000000C0016000600050008000C000C0000000003040018000000080000000000000000000A0018000C00040008000A0000003C000000100000000100000000000000000000000200000000000000000000000000000000000000000000000000000004000000000000000000000001000000010000000000000000000000000000000100000000000000FFFFFFFF00000000',1795880245649988,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "results" VALUES('st_01a21da77fe57008a186e68fb9e025d0','anonymous','inline','{"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": true, "metadata": {}}]}',1,4,0,1,NULL,X'FFFFFFFF780000001000000000000A000C000600050008000A000000000104000C000000080008000000040008000000040000000100000014000000100014000800060007000C00000010001000000000000102100000001C0000000400000000000000020000005F30000008000C0008000700080000000000000120000000FFFFFFFF8800000014000000000000000C0016000600050008000C000C0000000003040018000000080000000000000000000A0018000C00040008000A0000003C000000100000000100000000000000000000000200000000000000000000000000000000000000000000000000000004000000000000000000000001000000010000000000000000000000000000000100000000000000FFFFFFFF00000000',1795880246307923,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "results" VALUES('st_01a21da780ee7182a5d511c9f07abf8d','anonymous','inline','{"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": true, "metadata": {}}]}',1,4,0,1,NULL,X'FFFFFFFF780000001000000000000A000C000600050008000A000000000104000C000000080008000000040008000000040000000100000014000000100014000800060007000C00000010001000000000000102100000001C0000000400000000000000020000005F30000008000C0008000700080000000000000120000000FFFFFFFF8800000014000000000000000C0016000600050008000C000C0000000003040018000000080000000000000000000A0018000C00040008000A0000003C000000100000000100000000000000000000000200000000000000000000000000000000000000000000000000000004000000000000000000000001000000010000000000000000000000000000000100000000000000FFFFFFFF00000000',1795880246529106,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "results" VALUES('st_01a21da7830976658a39227627f37085','anonymous','inline','{"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": true, "metadata": {}}]}',1,4,0,1,NULL,X'FFFFFFFF780000001000000000000A000C000600050008000A000000000104000C000000080008000000040008000000040000000100000014000000100014000800060007000C00000010001000000000000102100000001C0000000400000000000000020000005F30000008000C0008000700080000000000000120000000FFFFFFFF8800000014000000000000000C0016000600050008000C000C0000000003040018000000080000000000000000000A0018000C00040008000A0000003C000000100000000100000000000000000000000200000000000000000000000000000000000000000000000000000004000000000000000000000001000000010000000000000000000000000000000100000000000000FFFFFFFF00000000',1795880247067208,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "results" VALUES('st_01a21da786f17038b530d90f9ec1af28','anonymous','inline','{"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": true, "metadata": {}}]}',1,4,0,1,NULL,X'FFFFFFFF780000001000000000000A000C000600050008000A000000000104000C000000080008000000040008000000040000000100000014000000100014000800060007000C00000010001000000000000102100000001C0000000400000000000000020000005F30000008000C0008000700080000000000000120000000FFFFFFFF8800000014000000000000000C0016000600050008000C000C0000000003040018000000080000000000000000000A0018000C00040008000A0000003C000000100000000100000000000000000000000200000000000000000000000000000000000000000000000000000004000000000000000000000001000000010000000000000000000000000000000100000000000000FFFFFFFF00000000',1795880248131222,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "results" VALUES('st_01a21da787da765c8e4c35323f94129b','anonymous','inline','{"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": true, "metadata": {}}]}',1,4,0,1,NULL,X'FFFFFFFF780000001000000000000A000C000600050008000A000000000104000C000000080008000000040008000000040000000100000014000000100014000800060007000C00000010001000000000000102100000001C0000000400000000000000020000005F30000008000C0008000700080000000000000120000000FFFFFFFF8800000014000000000000000C0016000600050008000C000C0000000003040018000000080000000000000000000A0018000C00040008000A0000003C000000100000000100000000000000000000000200000000000000000000000000000000000000000000000000000004000000000000000000000001000000010000000000000000000000000000000100000000000000FFFFFFFF00000000',1795880248385387,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "results" VALUES('st_01a21da7889e75439076d2b1266a8a4b','anonymous','inline','{"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": true, "metadata": {}}]}',1,4,0,1,NULL,X'FFFFFFFF780000001000000000000A000C000600050008000A000000000104000C000000080008000000040008000000040000000100000014000000100014000800060007000C00000010001000000000000102100000001C0000000400000000000000020000005F30000008000C0008000700080000000000000120000000FFFFFFFF8800000014000000000000000C0016000600050008000C000C0000000003040018000000080000000000000000000A0018000C00040008000A0000003C000000100000000100000000000000000000000200000000000000000000000000000000000000000000000000000004000000000000000000000001000000010000000000000000000000000000000100000000000000FFFFFFFF00000000',1795880248622608,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "results" VALUES('st_01a21da789c47348becbefe96520c898','anonymous','inline','{"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": true, "metadata": {}}]}',1,4,0,1,NULL,X'FFFFFFFF780000001000000000000A000C000600050008000A000000000104000C000000080008000000040008000000040000000100000014000000100014000800060007000C00000010001000000000000102100000001C0000000400000000000000020000005F30000008000C0008000700080000000000000120000000FFFFFFFF8800000014000000000000000C0016000600050008000C000C0000000003040018000000080000000000000000000A0018000C00040008000A0000003C000000100000000100000000000000000000000200000000000000000000000000000000000000000000000000000004000000000000000000000001000000010000000000000000000000000000000100000000000000FFFFFFFF00000000',1795880248853967,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "results" VALUES('st_01a21da78a207042b31e27f30f0406b8','anonymous','inline','{"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": true, "metadata": {}}]}',1,4,0,1,NULL,X'FFFFFFFF780000001000000000000A000C000600050008000A000000000104000C000000080008000000040008000000040000000100000014000000100014000800060007000C00000010001000000000000102100000001C0000000400000000000000020000005F30000008000C0008000700080000000000000120000000FFFFFFFF8800000014000000000000000C0016000600050008000C000C0000000003040018000000080000000000000000000A0018000C00040008000A0000003C000000100000000100000000000000000000000200000000000000000000000000000000000000000000000000000004000000000000000000000001000000010000000000000000000000000000000100000000000000FFFFFFFF00000000',1795880249111084,NULL,0,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE savepoints (
	id TEXT NOT NULL, 
	job_id TEXT NOT NULL, 
	version INTEGER NOT NULL, 
	run TEXT NOT NULL, 
	place TEXT NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	content JSON, 
	created_at BIGINT NOT NULL, 
	ended_at BIGINT, 
	CONSTRAINT savepoints_key PRIMARY KEY (id), 
	CONSTRAINT savepoints_ended CHECK ((ended_at IS NOT NULL) = (state = 'pruned')), 
	CONSTRAINT savepoints_known_state CHECK (state IN ('copying', 'verified', 'broken', 'pruned'))
);
INSERT INTO "savepoints" VALUES('sp_01a21da77fe2731da91b5c31fc476ad3','jb_01a21da77a57717b85ac76a1352126b6',1,'1/8f8f02df50bd419d9d70db5016191601','/srv/headrace/state/savepoints/job/1/sp_01a21da77fe2731da91b5c31fc476ad3','verified','{"files": 1, "bytes": 1, "checksum": "c", "spark_version": "4.1.3", "is_clean": true, "last_batches": {"": 0}}',1795793846243701,NULL);
CREATE TABLE schema_support (
	oldest_code TEXT NOT NULL, 
	CONSTRAINT schema_support_key PRIMARY KEY (oldest_code)
);
INSERT INTO "schema_support" VALUES('0001');
CREATE TABLE sessions (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	name TEXT, 
	state VARCHAR(16) NOT NULL, 
	profile TEXT NOT NULL, 
	conf JSON NOT NULL, 
	catalog TEXT, 
	"database" TEXT, 
	jars JSON NOT NULL, 
	files JSON NOT NULL, 
	py_files JSON NOT NULL, 
	idle_seconds FLOAT, 
	ttl_seconds FLOAT, 
	parallelism INTEGER DEFAULT '1' NOT NULL, 
	pool BOOLEAN DEFAULT 0 NOT NULL, 
	warm BOOLEAN DEFAULT 0 NOT NULL, 
	for_jobs BOOLEAN DEFAULT 0 NOT NULL, 
	streams INTEGER DEFAULT '0' NOT NULL, 
	streams_generation INTEGER DEFAULT '0' NOT NULL, 
	epoch INTEGER NOT NULL, 
	starts INTEGER DEFAULT '0' NOT NULL, 
	fenced_driver JSON, 
	lost JSON DEFAULT '[]' NOT NULL, 
	next_ordinal INTEGER NOT NULL, 
	launched_by TEXT, 
	host JSON, 
	token_hash TEXT, 
	results_location TEXT, 
	link_process TEXT, 
	flight_host TEXT, 
	flight_secret TEXT, 
	handle JSON, 
	driver JSON, 
	created_at BIGINT NOT NULL, 
	started_at BIGINT, 
	ended_at BIGINT, 
	last_used_at BIGINT, 
	last_update_time BIGINT, 
	closing_since BIGINT, 
	lease_until BIGINT, 
	failure JSON, 
	CONSTRAINT sessions_id_unique UNIQUE (id), 
	CONSTRAINT sessions_ended CHECK ((ended_at IS NOT NULL) = (state IN ('dead', 'failed'))), 
	CONSTRAINT sessions_known_state CHECK (state IN ('not_started', 'starting', 'running', 'recovering', 'closing', 'dead', 'failed'))
);
INSERT INTO "sessions" VALUES(1,'se_01a21da7774e72669ffd51e459defae6','anonymous','interactive','jobs-default','running','default','{}',NULL,NULL,'[]','[]','[]',1800.0,NULL,4,0,0,1,1,3,1,0,NULL,'[]',6,'no_01a21da7767e7416ba38405b7a7abc67','{"name": "node.example", "machine": "00000000000000000000000000000000", "boot": "00000000-0000-0000-0000-000000000000", "pid_namespace": "pid:[1]", "network_namespace": "net:[1]"}','c3b31eb175c190b7282f490c2da77fde502f2dc01e7a7d9aa75d174655e6a882','/srv/headrace/jobs/results',NULL,'127.0.0.1','R2-6EoCB6RdpiQm3G-e9R3ywNzHDfnGx6ewyMoz4Dbs','{"backend": "local", "name": "headrace-se_01a21da7774e72669ffd51e459defae6-1"}','{"pid": 1, "spark_version": "4.1.3", "application_id": "local-1", "ui_url": null, "keeps_tables": true}',1795793844048792,1795793844372846,NULL,1795793847049531,1795793847404709,NULL,1795794447404712,NULL);
INSERT INTO "sessions" VALUES(2,'se_01a21da78546708cb03b8e0fa55adb7d','anonymous','interactive','etl','running','default','{"spark.sql.ansi.enabled": "true"}',NULL,NULL,'[]','[]','[]',1800.0,NULL,1,0,0,0,0,0,1,0,NULL,'[]',3,'no_01a21da7851c76f68768af65cab4bdde','{"name": "node.example", "machine": "00000000000000000000000000000000", "boot": "00000000-0000-0000-0000-000000000000", "pid_namespace": "pid:[1]", "network_namespace": "net:[1]"}','6af5faa26705067f28c0ede58138a90b74d1ac26a9fda87cfa6b1d13620b4519','/srv/headrace/node/results',NULL,'127.0.0.1','Pw8tbkiS8LaKT99b8ch66dxngv3UgEgkTknmyB0xSJ4','{"backend": "local", "name": "headrace-se_01a21da78546708cb03b8e0fa55adb7d-1"}','{"pid": 1, "spark_version": "4.1.3", "application_id": "local-1", "ui_url": null, "keeps_tables": true}',1795793847632488,1795793847995501,NULL,1795793848273576,1795793847995503,NULL,1795794447995503,NULL);
INSERT INTO "sessions" VALUES(3,'se_01a21da787d874c1915c953434697434','anonymous','interactive',NULL,'running','default','{}',NULL,NULL,'[]','[]','[]',300.0,NULL,8,1,0,0,0,0,1,0,NULL,'[]',1,'no_01a21da7851c76f68768af65cab4bdde','{"name": "node.example", "machine": "00000000000000000000000000000000", "boot": "00000000-0000-0000-0000-000000000000", "pid_namespace": "pid:[1]", "network_namespace": "net:[1]"}','6e89bcd88ae964510b3f23042831d299f197ba0d7ea8eecc57c6d6da7247c415','/srv/headrace/node/results',NULL,'127.0.0.1','7KRJBxBnJgGeziImdL1aTqVgpqqoGprQ9qyzo0zqDuA','{"backend": "local", "name": "headrace-se_01a21da787d874c1915c953434697434-1"}','{"pid": 1, "spark_version": "4.1.3", "application_id": "local-1", "ui_url": null, "keeps_tables": true}',1795793848282676,1795793848330977,NULL,1795793848282960,1795793848330979,NULL,1795794448330979,NULL);
INSERT INTO "sessions" VALUES(4,'se_01a21da788757334a6f5e46eaa12cde8','anonymous','streaming',NULL,'running','default','{}',NULL,NULL,'[]','[]','[]',1800.0,NULL,1,0,0,0,1,2,1,0,NULL,'[]',1,'no_01a21da7851c76f68768af65cab4bdde','{"name": "node.example", "machine": "00000000000000000000000000000000", "boot": "00000000-0000-0000-0000-000000000000", "pid_namespace": "pid:[1]", "network_namespace": "net:[1]"}','9e8e50c9413e0d0457bca82caa46150b61afe98d141f96ef597ba8950c07d74f','/srv/headrace/node/results',NULL,'127.0.0.1','-EgRcZ9F106Mmc_3oEMiQSlaD0WXWIsdfeGMZb-2DD0','{"backend": "local", "name": "headrace-se_01a21da788757334a6f5e46eaa12cde8-1"}','{"pid": 1, "spark_version": "4.1.3", "application_id": "local-1", "ui_url": null, "keeps_tables": true}',1795793848439465,1795793848470262,NULL,1795793848478778,1795793848677511,NULL,1795794448677513,NULL);
INSERT INTO "sessions" VALUES(5,'se_01a21da7896c757585d1c493775248e0','anonymous','interactive',NULL,'running','default','{}',NULL,NULL,'[]','[]','[]',1800.0,NULL,1,0,0,0,0,0,1,0,NULL,'[]',1,'no_01a21da7851c76f68768af65cab4bdde','{"name": "node.example", "machine": "00000000000000000000000000000000", "boot": "00000000-0000-0000-0000-000000000000", "pid_namespace": "pid:[1]", "network_namespace": "net:[1]"}','11c1ae5343766da702fcdf2ef1283b82a2dbbce0de8d3a12d558a5206d1a2acc','/srv/headrace/node/results',NULL,'127.0.0.1','sg6DzcTfv9z3NV4rnQ8MDvLEOcypssYn8eIoFoBEfK8','{"backend": "local", "name": "headrace-se_01a21da7896c757585d1c493775248e0-1"}','{"pid": 1, "spark_version": "4.1.3", "application_id": "local-1", "ui_url": null, "keeps_tables": true}',1795793848686120,1795793848762269,NULL,1795793848772795,1795793848762271,NULL,1795794448762272,NULL);
INSERT INTO "sessions" VALUES(6,'se_01a21da78a1f74a6925722e1497ed776','anonymous','batch',NULL,'running','default','{}',NULL,NULL,'[]','[]','[]',60.0,NULL,1,0,0,0,0,0,1,0,NULL,'[]',1,'no_01a21da7851c76f68768af65cab4bdde','{"name": "node.example", "machine": "00000000000000000000000000000000", "boot": "00000000-0000-0000-0000-000000000000", "pid_namespace": "pid:[1]", "network_namespace": "net:[1]"}','ea9d787a314387d6479eaf74d8106232143d473a9db1a3ca50ebbf571a6ace69','/srv/headrace/node/results',NULL,'127.0.0.1','x1vmPWQV7ouRNkVW-aHnNiwN5f8uO8Ml-oCZEyEtD7Y','{"backend": "local", "name": "headrace-se_01a21da78a1f74a6925722e1497ed776-1"}','{"pid": 1, "spark_version": "4.1.3", "application_id": "local-1", "ui_url": null, "keeps_tables": true}',1795793848864264,1795793848958907,NULL,1795793848864533,1795793848958908,NULL,1795794448958909,NULL);
CREATE TABLE snapshots (
	session_id TEXT NOT NULL, 
	snapshot JSON NOT NULL, 
	taken_at BIGINT NOT NULL, 
	CONSTRAINT snapshots_key PRIMARY KEY (session_id), 
	CONSTRAINT snapshots_session_id_exists FOREIGN KEY(session_id) REFERENCES sessions (id)
);
CREATE TABLE statements (
	id TEXT NOT NULL, 
	session_id TEXT NOT NULL, 
	ordinal INTEGER NOT NULL, 
	owner TEXT NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	text TEXT NOT NULL, 
	is_query BOOLEAN DEFAULT 0 NOT NULL, 
	command TEXT, 
	parameters JSON NOT NULL, 
	conf JSON NOT NULL, 
	result_request JSON NOT NULL, 
	timeout_seconds FLOAT, 
	queue_timeout_seconds FLOAT, 
	epoch INTEGER, 
	attempts INTEGER NOT NULL, 
	may_have_effects BOOLEAN DEFAULT 1 NOT NULL, 
	created_at BIGINT NOT NULL, 
	waiting_since BIGINT NOT NULL, 
	launched_at BIGINT, 
	started_at BIGINT, 
	cancel_requested_at BIGINT, 
	cancel_reason VARCHAR(16), 
	cancel_forced BOOLEAN DEFAULT 0 NOT NULL, 
	cancel_note TEXT, 
	ended_at BIGINT, 
	progress JSON, 
	atomic BOOLEAN, 
	note TEXT, 
	rows_written BIGINT, 
	failure JSON, 
	awaited_by TEXT, 
	CONSTRAINT statements_key PRIMARY KEY (id), 
	CONSTRAINT statements_session_id_ordinal_unique UNIQUE (session_id, ordinal), 
	CONSTRAINT statements_ended CHECK ((ended_at IS NOT NULL) = (state IN ('success', 'failed', 'timeout', 'cancelled'))), 
	CONSTRAINT statements_known_state CHECK (state IN ('waiting', 'launched', 'running', 'cancelling', 'success', 'failed', 'timeout', 'cancelled')), 
	CONSTRAINT statements_session_id_exists FOREIGN KEY(session_id) REFERENCES sessions (id)
);
INSERT INTO "statements" VALUES('st_01a21da7778374f1a07633fc687dc077','se_01a21da7774e72669ffd51e459defae6',0,'anonymous','interactive','success','JOB TASK: check job',1,'JOB TASK','[]','{}','{"disposition": "auto", "row_limit": null, "byte_limit": null, "location": null}',NULL,NULL,1,1,1,1795793844108912,1795793844108914,1795793844406798,1795793844419162,NULL,NULL,0,NULL,1795793844634201,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "statements" VALUES('st_01a21da77bb270f695f8b09745f519f2','se_01a21da7774e72669ffd51e459defae6',1,'anonymous','interactive','success','JOB TASK: write the manifest of job',1,'JOB WRITE','[]','{}','{"disposition": "auto", "row_limit": null, "byte_limit": null, "location": null}',NULL,NULL,1,1,1,1795793845172606,1795793845172607,1795793845176444,1795793845196827,NULL,NULL,0,NULL,1795793845228351,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "statements" VALUES('st_01a21da77d1274d1bf405c50720e6ee4','se_01a21da7774e72669ffd51e459defae6',2,'anonymous','interactive','success','JOB TASK: check job',1,'JOB TASK','[]','{}','{"disposition": "auto", "row_limit": null, "byte_limit": null, "location": null}',NULL,NULL,1,1,1,1795793845523374,1795793845523376,1795793845624542,1795793845646111,NULL,NULL,0,NULL,1795793845649787,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "statements" VALUES('st_01a21da77fe57008a186e68fb9e025d0','se_01a21da7774e72669ffd51e459defae6',3,'anonymous','interactive','success','JOB TASK: copy a savepoint of job',1,'JOB TASK','[]','{}','{"disposition": "auto", "row_limit": null, "byte_limit": null, "location": null}',NULL,NULL,1,1,1,1795793846245422,1795793846245423,1795793846249783,1795793846255077,NULL,NULL,0,NULL,1795793846307708,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "statements" VALUES('st_01a21da780ee7182a5d511c9f07abf8d','se_01a21da7774e72669ffd51e459defae6',4,'anonymous','interactive','success','JOB TASK: restore a savepoint of job',1,'JOB WRITE','[]','{}','{"disposition": "auto", "row_limit": null, "byte_limit": null, "location": null}',NULL,NULL,1,1,1,1795793846510593,1795793846510594,1795793846522737,1795793846525775,NULL,NULL,0,NULL,1795793846528920,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "statements" VALUES('st_01a21da7830976658a39227627f37085','se_01a21da7774e72669ffd51e459defae6',5,'anonymous','interactive','success','JOB TASK: write the manifest of job',1,'JOB WRITE','[]','{}','{"disposition": "auto", "row_limit": null, "byte_limit": null, "location": null}',NULL,NULL,1,1,1,1795793847049742,1795793847049743,1795793847058012,1795793847062648,NULL,NULL,0,NULL,1795793847067011,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "statements" VALUES('st_01a21da786f17038b530d90f9ec1af28','se_01a21da78546708cb03b8e0fa55adb7d',0,'anonymous','interactive','success','SELECT 1',1,NULL,'[]','{}','{"disposition": "auto", "row_limit": null, "byte_limit": null, "location": null}',NULL,NULL,1,1,1,1795793848054385,1795793848054387,1795793848105101,1795793848119300,NULL,NULL,0,NULL,1795793848125840,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "statements" VALUES('st_01a21da78775752b99266c81e0b97a0b','se_01a21da78546708cb03b8e0fa55adb7d',1,'anonymous','interactive','failed','SELECT nothing',1,NULL,'[]','{}','{"disposition": "auto", "row_limit": null, "byte_limit": null, "location": null}',NULL,NULL,1,1,1,1795793848181537,1795793848181538,1795793848186381,1795793848197398,NULL,NULL,0,NULL,1795793848209114,NULL,NULL,NULL,NULL,'{"code": "analysis_error", "message": "The column is unknown.", "condition": null, "sqlstate": null, "line": null, "column": null, "trace": null}',NULL);
INSERT INTO "statements" VALUES('st_01a21da787d174ea9cdcfadcb19e6b81','se_01a21da78546708cb03b8e0fa55adb7d',2,'anonymous','interactive','waiting','SELECT :a',1,NULL,'[{"value": "1", "name": "a", "type": null}]','{}','{"disposition": "auto", "row_limit": null, "byte_limit": null, "location": null}',NULL,NULL,NULL,0,1,1795793848273827,1795793848273828,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "statements" VALUES('st_01a21da787da765c8e4c35323f94129b','se_01a21da787d874c1915c953434697434',0,'anonymous','interactive','success','CREATE STREAM clicks FROM rate',0,'CREATE STREAM','[]','{}','{"disposition": "auto", "row_limit": null, "byte_limit": null, "location": null}',NULL,NULL,1,1,1,1795793848283137,1795793848283138,1795793848360657,1795793848385179,NULL,NULL,0,NULL,1795793848385181,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "statements" VALUES('st_01a21da7889e75439076d2b1266a8a4b','se_01a21da788757334a6f5e46eaa12cde8',0,'anonymous','streaming','success','SAVE STREAM t TO noop IDENTIFIED BY q0 ',0,'SAVE STREAM','[]','{}','{"disposition": "auto", "row_limit": null, "byte_limit": null, "location": null}',NULL,NULL,1,1,1,1795793848478977,1795793848478978,1795793848581335,1795793848621856,NULL,NULL,0,NULL,1795793848621858,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "statements" VALUES('st_01a21da789c47348becbefe96520c898','se_01a21da7896c757585d1c493775248e0',0,'anonymous','interactive','success','CREATE MATERIALIZED VIEW v0  AS SELECT 1 AS a',0,'CREATE MATERIALIZED VIEW','[]','{}','{"disposition": "auto", "row_limit": null, "byte_limit": null, "location": null}',NULL,NULL,1,1,1,1795793848773023,1795793848773024,1795793848778207,1795793848852931,NULL,NULL,0,NULL,1795793848852932,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "statements" VALUES('st_01a21da78a207042b31e27f30f0406b8','se_01a21da78a1f74a6925722e1497ed776',0,'anonymous','batch','success','REFRESH MATERIALIZED VIEW v0',0,'REFRESH MATERIALIZED VIEW','[]','{}','{"disposition": "auto", "row_limit": null, "byte_limit": null, "location": null}',NULL,NULL,1,1,1,1795793848864712,1795793848864713,1795793848969500,1795793849110885,NULL,NULL,0,NULL,1795793849110887,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE store_catalog (
	id INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	keys JSON NOT NULL, 
	place JSON, 
	description TEXT NOT NULL, 
	node_id TEXT NOT NULL, 
	recorded_at BIGINT NOT NULL, 
	CONSTRAINT store_catalog_key PRIMARY KEY (id)
);
INSERT INTO "store_catalog" VALUES(1,'memory','{}',NULL,'the memory of each driver','no_01a21da7767e7416ba38405b7a7abc67',1795793843849552);
CREATE TABLE stream_progress (
	query_id TEXT NOT NULL, 
	slot INTEGER NOT NULL, 
	batch BIGINT NOT NULL, 
	progress JSON NOT NULL, 
	CONSTRAINT stream_progress_key PRIMARY KEY (query_id, slot)
);
INSERT INTO "stream_progress" VALUES('sq_01a21da788ac729badcdee5063a3552a',7,7,'{"batch": 7, "at": "2026-11-22T00:00:00.000Z", "input_rows": 10, "input_rate": 1.0, "process_rate": 2.0, "milliseconds": 5, "watermark": null, "state_rows": 0, "state_bytes": 0, "lag": {}}');
CREATE TABLE stream_queries (
	id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	scope TEXT NOT NULL, 
	name TEXT NOT NULL, 
	name_key TEXT NOT NULL, 
	spec JSON NOT NULL, 
	checkpoint TEXT, 
	state VARCHAR(16) NOT NULL, 
	wanted VARCHAR(16) NOT NULL, 
	generation INTEGER NOT NULL, 
	session_id TEXT NOT NULL, 
	statement_id TEXT, 
	attempt INTEGER NOT NULL, 
	previous_id TEXT, 
	failures INTEGER DEFAULT '0' NOT NULL, 
	retry_at BIGINT, 
	run_id TEXT, 
	last_batch BIGINT, 
	last_error JSON, 
	created_at BIGINT NOT NULL, 
	started_at BIGINT, 
	healthy_since BIGINT, 
	ended_at BIGINT, 
	report_epoch INTEGER, 
	report_sequence INTEGER, 
	end_reason VARCHAR(16), 
	CONSTRAINT stream_queries_key PRIMARY KEY (id), 
	CONSTRAINT stream_queries_ended CHECK ((ended_at IS NOT NULL) = (state IN ('stopped', 'failed'))), 
	CONSTRAINT stream_queries_known_state CHECK (state IN ('starting', 'running', 'backing_off', 'stopping', 'paused', 'stopped', 'failed'))
);
INSERT INTO "stream_queries" VALUES('sq_01a21da77a7571e3b53b20c1f094bf53','anonymous','job','job','job','{"text": "SAVE STREAM `job` TO `files` IDENTIFIED BY `job`", "definitions": ["CREATE STREAM numbers FROM rate", "CREATE SINK `files` TO `json`"], "sink": "json", "path": "/srv/headrace/jobs/streams/jobs-anonymous/job-352126b6/1", "checkpoint": "/srv/headrace/state/checkpoints/job/1/8f8f02df50bd419d9d70db5016191601", "views": [], "conf": {}, "scope": null, "view": null, "rows": {"setup": [], "sql": "SELECT value FROM numbers", "code": null, "metadata": null}}','file:/srv/headrace/state/checkpoints/job/1/8f8f02df50bd419d9d70db5016191601','stopped','stopped',2,'se_01a21da7774e72669ffd51e459defae6',NULL,1,NULL,0,NULL,'run',0,NULL,1795793844857390,1795793844977955,1795793844977956,1795793845995002,NULL,NULL,'job_changed');
INSERT INTO "stream_queries" VALUES('sq_01a21da781f87542b5840d9c62729984','anonymous','job','job','job','{"text": "SAVE STREAM `job` TO `files` IDENTIFIED BY `job` TRIGGER 2 SECONDS", "definitions": ["CREATE STREAM numbers FROM rate", "CREATE SINK `files` TO `json`"], "sink": "json", "path": "/srv/headrace/jobs/streams/jobs-anonymous/job-352126b6/1", "checkpoint": "/srv/headrace/state/checkpoints/job/1/f082411e91f8430784e4ea23c7ba33cf", "views": [], "conf": {}, "scope": null, "view": null, "rows": {"setup": [], "sql": "SELECT value FROM numbers", "code": null, "metadata": null}}','file:/srv/headrace/state/checkpoints/job/1/f082411e91f8430784e4ea23c7ba33cf','running','running',1,'se_01a21da7774e72669ffd51e459defae6',NULL,1,NULL,0,NULL,'run',1,NULL,1795793846777821,1795793846815405,1795793846815406,NULL,NULL,NULL,NULL);
INSERT INTO "stream_queries" VALUES('sq_01a21da788ac729badcdee5063a3552a','anonymous','adhoc','q0','q0','{"text": "SAVE STREAM t TO noop IDENTIFIED BY q0 ", "definitions": [], "sink": "noop", "path": null, "checkpoint": "/srv/headrace/node/checkpoints/adhoc-anonymous/q0", "views": [], "conf": {}, "scope": null, "view": null, "rows": null}','file:/srv/headrace/node/checkpoints/adhoc-anonymous/q0','running','running',1,'se_01a21da788757334a6f5e46eaa12cde8','st_01a21da7889e75439076d2b1266a8a4b',1,NULL,0,NULL,'run-1',7,NULL,1795793848527202,1795793848649198,1795793848649200,NULL,NULL,NULL,NULL);
CREATE TABLE table_writes (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	statement_id TEXT NOT NULL, 
	session_id TEXT NOT NULL, 
	epoch INTEGER NOT NULL, 
	identity TEXT NOT NULL, 
	location TEXT NOT NULL, 
	"table" TEXT, 
	overwrite BOOLEAN NOT NULL, 
	released BOOLEAN DEFAULT 0 NOT NULL, 
	created_at BIGINT NOT NULL
);
CREATE TABLE transactions (
	id TEXT NOT NULL, 
	statement_id TEXT NOT NULL, 
	session_id TEXT NOT NULL, 
	epoch INTEGER NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	catalog TEXT NOT NULL, 
	identity TEXT NOT NULL, 
	target TEXT NOT NULL, 
	location TEXT, 
	staged JSON NOT NULL, 
	staged_epoch INTEGER NOT NULL, 
	shares_target BOOLEAN DEFAULT 0 NOT NULL, 
	attempts INTEGER DEFAULT '0' NOT NULL, 
	retry_at BIGINT, 
	last_error TEXT, 
	created_at BIGINT NOT NULL, 
	ended_at BIGINT, 
	CONSTRAINT transactions_key PRIMARY KEY (id), 
	CONSTRAINT transactions_ended CHECK ((ended_at IS NOT NULL) = (state IN ('committed', 'aborted'))), 
	CONSTRAINT transactions_known_state CHECK (state IN ('prepared', 'begun', 'committing', 'committed', 'aborting', 'aborted')), 
	CONSTRAINT transactions_statement_id_exists FOREIGN KEY(statement_id) REFERENCES statements (id), 
	CONSTRAINT transactions_session_id_exists FOREIGN KEY(session_id) REFERENCES sessions (id)
);
INSERT INTO "transactions" VALUES('tx_01a21da789ef709187e1acf732858dbc','st_01a21da789c47348becbefe96520c898','se_01a21da7896c757585d1c493775248e0',1,'committed','spark_catalog','metastore','`default`.`__mv_v0_1`',NULL,'{"kind": "session", "catalog": "spark_catalog", "identity": "metastore", "target": "`default`.`__mv_v0_1`", "location": null, "place": null, "record": {}, "commits_natively": false, "shares_target": false, "ignore_if_exists": false}',1,0,0,NULL,NULL,1795793848821548,1795793848855852);
INSERT INTO "transactions" VALUES('tx_01a21da78ad272bca6c165d7d856e6be','st_01a21da78a207042b31e27f30f0406b8','se_01a21da78a1f74a6925722e1497ed776',1,'committed','spark_catalog','metastore','`default`.`__mv_v0_2`',NULL,'{"kind": "session", "catalog": "spark_catalog", "identity": "metastore", "target": "`default`.`__mv_v0_2`", "location": null, "place": null, "record": {}, "commits_natively": false, "shares_target": false, "ignore_if_exists": false}',1,0,0,NULL,NULL,1795793849046671,1795793849112310);
CREATE INDEX catalog_intents_due ON catalog_intents (due_at) WHERE ended_at IS NULL;
CREATE INDEX catalog_intents_ended ON catalog_intents (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX definitions_ended ON definitions (ended_at) WHERE ended_at IS NOT NULL;
CREATE UNIQUE INDEX definitions_live_name ON definitions (owner, scope, kind, name_key) WHERE ended_at IS NULL;
CREATE INDEX deployments_by_owner ON deployments (owner, id);
CREATE INDEX deployments_ended ON deployments (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX deployments_live ON deployments (id) WHERE ended_at IS NULL;
CREATE INDEX events_by_entity ON events (entity_id, generation, xid, id);
CREATE INDEX events_of_nodes ON events (at) WHERE entity = 'node';
CREATE INDEX events_order ON events (generation, xid, id);
CREATE INDEX idempotency_age ON idempotency (created_at);
CREATE INDEX job_changes_by_deployment ON job_changes (deployment_id, id);
CREATE INDEX job_changes_by_job ON job_changes (job_id, id);
CREATE UNIQUE INDEX job_versions_by_job ON job_versions (job_id, revision);
CREATE INDEX jobs_ended ON jobs (ended_at) WHERE ended_at IS NOT NULL;
CREATE UNIQUE INDEX jobs_live_name ON jobs (owner, name_key) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX jobs_live_state_place ON jobs (state_place, name_key) WHERE ended_at IS NULL;
CREATE INDEX materialized_views_by_target ON materialized_views (identity, target, generation);
CREATE INDEX materialized_views_by_writer ON materialized_views (writer_id);
CREATE INDEX materialized_views_ended ON materialized_views (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX materialized_views_live_name ON materialized_views (owner, name_key) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX materialized_views_live_target ON materialized_views (identity, target) WHERE ended_at IS NULL;
CREATE INDEX nodes_by_id ON nodes (id, registration);
CREATE INDEX nodes_ended ON nodes (ended_at) WHERE ended_at IS NOT NULL;
CREATE UNIQUE INDEX nodes_live ON nodes (id) WHERE ended_at IS NULL;
CREATE INDEX operations_ended ON operations (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX operations_live ON operations (id) WHERE ended_at IS NULL;
CREATE INDEX savepoints_by_job ON savepoints (job_id, id);
CREATE INDEX sessions_by_owner ON sessions (owner, id);
CREATE INDEX sessions_ended ON sessions (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX sessions_live ON sessions (id) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX sessions_live_name ON sessions (owner, name) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX sessions_pool ON sessions (owner, profile) WHERE pool AND ended_at IS NULL AND state <> 'closing';
CREATE INDEX sessions_warm ON sessions (profile, id) WHERE warm;
CREATE INDEX stream_queries_by_checkpoint ON stream_queries (checkpoint, id);
CREATE INDEX stream_queries_by_name ON stream_queries (owner, scope, name_key, id);
CREATE INDEX stream_queries_by_owner ON stream_queries (owner, id);
CREATE INDEX stream_queries_by_statement ON stream_queries (statement_id);
CREATE INDEX stream_queries_ended ON stream_queries (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX stream_queries_live ON stream_queries (session_id) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX stream_queries_live_checkpoint ON stream_queries (checkpoint) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX stream_queries_live_name ON stream_queries (owner, scope, name_key) WHERE ended_at IS NULL;
CREATE INDEX table_writes_by_location ON table_writes (location);
CREATE INDEX table_writes_by_statement ON table_writes (statement_id);
CREATE INDEX statements_by_end ON statements (state, id) WHERE ended_at IS NOT NULL;
CREATE INDEX statements_by_owner ON statements (owner, id);
CREATE INDEX statements_by_session ON statements (session_id, id);
CREATE INDEX statements_ended ON statements (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX statements_live ON statements (session_id, ordinal) WHERE ended_at IS NULL;
CREATE INDEX statements_live_by_state ON statements (state, session_id, ordinal) WHERE ended_at IS NULL;
CREATE INDEX statements_timed ON statements (id) WHERE ended_at IS NULL AND (timeout_seconds IS NOT NULL OR queue_timeout_seconds IS NOT NULL);
CREATE INDEX pending_hook_calls_by_session ON pending_hook_calls (session_id);
CREATE INDEX results_kept ON results (expires_at) WHERE gone_at IS NULL;
CREATE INDEX transactions_by_session ON transactions (session_id);
CREATE INDEX transactions_by_statement ON transactions (statement_id, id);
CREATE INDEX transactions_live ON transactions (statement_id) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX transactions_publishing_location ON transactions (identity, location) WHERE state = 'committing' AND NOT shares_target;
CREATE UNIQUE INDEX transactions_publishing_target ON transactions (identity, target) WHERE state = 'committing' AND NOT shares_target;
CREATE INDEX statements_live_by_owner ON statements (owner, state) WHERE ended_at IS NULL;
CREATE INDEX statements_waiting ON statements (waiting_since, id) WHERE ended_at IS NULL AND state = 'waiting';
CREATE INDEX statements_slow ON statements (ended_at, id) WHERE ended_at - started_at >= 1000000;
CREATE INDEX results_held ON results (holder_session_id) WHERE holder_session_id IS NOT NULL AND gone_at IS NULL;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('nodes',2);
INSERT INTO "sqlite_sequence" VALUES('events',129);
INSERT INTO "sqlite_sequence" VALUES('sessions',6);
COMMIT;
