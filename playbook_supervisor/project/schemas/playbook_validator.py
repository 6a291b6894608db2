"""Whether data conform to `playbook.json`; made by tools/generate_validator.py."""

# fmt: off
# ruff: noqa
# mypy: ignore-errors

import re


class JsonSchemaValueException(ValueError):
    """The data do not conform."""


def conforms(data: object) -> bool:
    """Yes or no; `schema.py` explains a no."""
    try:
        validate(data)
    except JsonSchemaValueException:
        return False
    return True


REGEX_PATTERNS = {
    '^(?:default|PB(?:-[A-Z0-9]+)+)$(?!\\n)': re.compile('^(?:default|PB(?:-[A-Z0-9]+)+)\\Z(?!\\n)'),
    '^(?:/[A-Za-z0-9][A-Za-z0-9_.:-]{0,198}|[a-z][a-z0-9_-]{0,60}(?: \\S(?:.*\\S)?)?)$(?!\\n)': re.compile('^(?:/[A-Za-z0-9][A-Za-z0-9_.:-]{0,198}|[a-z][a-z0-9_-]{0,60}(?: \\S(?:.*\\S)?)?)\\Z(?!\\n)'),
    '^[A-Za-z0-9._:/@-]+$(?!\\n)': re.compile('^[A-Za-z0-9._:/@-]+\\Z(?!\\n)'),
    '^\\S(?:.*\\S)?$(?!\\n)': re.compile('^\\S(?:.*\\S)?\\Z(?!\\n)'),
    '^\\$[a-z0-9][a-z0-9-]*\\.(?:stdout|json)$(?!\\n)': re.compile('^\\$[a-z0-9][a-z0-9-]*\\.(?:stdout|json)\\Z(?!\\n)'),
    '^\\$[a-z0-9][a-z0-9_-]*(?:\\.json(?:\\.[A-Za-z_][A-Za-z0-9_-]*|\\[[0-9]{1,6}\\])*)?$(?!\\n)': re.compile('^\\$[a-z0-9][a-z0-9_-]*(?:\\.json(?:\\.[A-Za-z_][A-Za-z0-9_-]*|\\[[0-9]{1,6}\\])*)?\\Z(?!\\n)'),
    '^[a-z][a-z0-9_-]*$(?!\\n)': re.compile('^[a-z][a-z0-9_-]*\\Z(?!\\n)'),
    '^[a-z0-9][a-z0-9-]*$(?!\\n)': re.compile('^[a-z0-9][a-z0-9-]*\\Z(?!\\n)')
}

NoneType = type(None)

def validate(data, custom_formats={}, name_prefix=None):
    if not isinstance(data, (dict)):
        raise JsonSchemaValueException("" + (name_prefix or "data") + " must be object")
    data_is_dict = isinstance(data, dict)
    if data_is_dict:
        data__missing_keys = set(['name', 'description', 'version', 'args', 'steps']) - data.keys()
        if data__missing_keys:
            raise JsonSchemaValueException("" + (name_prefix or "data") + " must contain ")
        data_keys = set(data.keys())
        if "name" in data_keys:
            data_keys.remove("name")
            data__name = data["name"]
            validate___definitions_slug(data__name, custom_formats, (name_prefix or "data") + ".name")
        if "description" in data_keys:
            data_keys.remove("description")
            data__description = data["description"]
            if not isinstance(data__description, (str)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".description must be string")
            if isinstance(data__description, str):
                data__description_len = len(data__description)
                if data__description_len < 1:
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".description must be longer than or equal to 1 characters")
        if "version" in data_keys:
            data_keys.remove("version")
            data__version = data["version"]
            if not isinstance(data__version, (str, int, float)) or isinstance(data__version, bool):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".version must be string or number")
            if isinstance(data__version, str):
                data__version_len = len(data__version)
                if data__version_len < 1:
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".version must be longer than or equal to 1 characters")
        if "args" in data_keys:
            data_keys.remove("args")
            data__args = data["args"]
            if not isinstance(data__args, (list, tuple)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".args must be array")
            data__args_is_list = isinstance(data__args, (list, tuple))
            if data__args_is_list:
                data__args_len = len(data__args)
                for data__args_x, data__args_item in enumerate(data__args):
                    validate___definitions_arg(data__args_item, custom_formats, (name_prefix or "data") + ".args[{data__args_x}]".format(**locals()))
        if "steps" in data_keys:
            data_keys.remove("steps")
            data__steps = data["steps"]
            if not isinstance(data__steps, (list, tuple)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".steps must be array")
            data__steps_is_list = isinstance(data__steps, (list, tuple))
            if data__steps_is_list:
                data__steps_len = len(data__steps)
                if data__steps_len < 1:
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".steps must contain at least 1 items")
                for data__steps_x, data__steps_item in enumerate(data__steps):
                    validate___definitions_step(data__steps_item, custom_formats, (name_prefix or "data") + ".steps[{data__steps_x}]".format(**locals()))
        if "owner" in data_keys:
            data_keys.remove("owner")
            data__owner = data["owner"]
            if not isinstance(data__owner, (str)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".owner must be string")
        if "reviewers" in data_keys:
            data_keys.remove("reviewers")
            data__reviewers = data["reviewers"]
            if not isinstance(data__reviewers, (dict)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".reviewers must be object")
            data__reviewers_is_dict = isinstance(data__reviewers, dict)
            if data__reviewers_is_dict:
                data__reviewers_keys = set(data__reviewers.keys())
                if "required" in data__reviewers_keys:
                    data__reviewers_keys.remove("required")
                    data__reviewers__required = data__reviewers["required"]
                    validate___definitions_people(data__reviewers__required, custom_formats, (name_prefix or "data") + ".reviewers.required")
                if "optional" in data__reviewers_keys:
                    data__reviewers_keys.remove("optional")
                    data__reviewers__optional = data__reviewers["optional"]
                    validate___definitions_people(data__reviewers__optional, custom_formats, (name_prefix or "data") + ".reviewers.optional")
                if data__reviewers_keys:
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".reviewers must not contain "+str(data__reviewers_keys)+" properties")
        if "outputs" in data_keys:
            data_keys.remove("outputs")
            data__outputs = data["outputs"]
            if not isinstance(data__outputs, (list, tuple)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".outputs must be array")
            data__outputs_is_list = isinstance(data__outputs, (list, tuple))
            if data__outputs_is_list:
                data__outputs_len = len(data__outputs)
                for data__outputs_x, data__outputs_item in enumerate(data__outputs):
                    validate___definitions_path(data__outputs_item, custom_formats, (name_prefix or "data") + ".outputs[{data__outputs_x}]".format(**locals()))
        if "limits" in data_keys:
            data_keys.remove("limits")
            data__limits = data["limits"]
            if not isinstance(data__limits, (dict)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".limits must be object")
            data__limits_is_dict = isinstance(data__limits, dict)
            if data__limits_is_dict:
                data__limits_keys = set(data__limits.keys())
                if "timeout_seconds" in data__limits_keys:
                    data__limits_keys.remove("timeout_seconds")
                    data__limits__timeoutseconds = data__limits["timeout_seconds"]
                    validate___definitions_seconds(data__limits__timeoutseconds, custom_formats, (name_prefix or "data") + ".limits.timeout_seconds")
                if "idle_timeout_seconds" in data__limits_keys:
                    data__limits_keys.remove("idle_timeout_seconds")
                    data__limits__idletimeoutseconds = data__limits["idle_timeout_seconds"]
                    validate___definitions_seconds(data__limits__idletimeoutseconds, custom_formats, (name_prefix or "data") + ".limits.idle_timeout_seconds")
                if "max_output_bytes" in data__limits_keys:
                    data__limits_keys.remove("max_output_bytes")
                    data__limits__maxoutputbytes = data__limits["max_output_bytes"]
                    validate___definitions_count(data__limits__maxoutputbytes, custom_formats, (name_prefix or "data") + ".limits.max_output_bytes")
                if "max_cost_usd" in data__limits_keys:
                    data__limits_keys.remove("max_cost_usd")
                    data__limits__maxcostusd = data__limits["max_cost_usd"]
                    validate___definitions_dollars(data__limits__maxcostusd, custom_formats, (name_prefix or "data") + ".limits.max_cost_usd")
                if "max_tokens" in data__limits_keys:
                    data__limits_keys.remove("max_tokens")
                    data__limits__maxtokens = data__limits["max_tokens"]
                    validate___definitions_count(data__limits__maxtokens, custom_formats, (name_prefix or "data") + ".limits.max_tokens")
                if "max_turns" in data__limits_keys:
                    data__limits_keys.remove("max_turns")
                    data__limits__maxturns = data__limits["max_turns"]
                    validate___definitions_count(data__limits__maxturns, custom_formats, (name_prefix or "data") + ".limits.max_turns")
                if "max_tool_calls" in data__limits_keys:
                    data__limits_keys.remove("max_tool_calls")
                    data__limits__maxtoolcalls = data__limits["max_tool_calls"]
                    validate___definitions_count(data__limits__maxtoolcalls, custom_formats, (name_prefix or "data") + ".limits.max_tool_calls")
                if "max_depth" in data__limits_keys:
                    data__limits_keys.remove("max_depth")
                    data__limits__maxdepth = data__limits["max_depth"]
                    if not isinstance(data__limits__maxdepth, (int)) and not (isinstance(data__limits__maxdepth, float) and data__limits__maxdepth.is_integer()) or isinstance(data__limits__maxdepth, bool):
                        raise JsonSchemaValueException("" + (name_prefix or "data") + ".limits.max_depth must be integer")
                    if isinstance(data__limits__maxdepth, (int, float)) and not isinstance(data__limits__maxdepth, bool):
                        if data__limits__maxdepth < 1:
                            raise JsonSchemaValueException("" + (name_prefix or "data") + ".limits.max_depth must be bigger than or equal to 1")
                        if data__limits__maxdepth > 100:
                            raise JsonSchemaValueException("" + (name_prefix or "data") + ".limits.max_depth must be smaller than or equal to 100")
                if data__limits_keys:
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".limits must not contain "+str(data__limits_keys)+" properties")
        if "defaults" in data_keys:
            data_keys.remove("defaults")
            data__defaults = data["defaults"]
            if not isinstance(data__defaults, (dict)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".defaults must be object")
            data__defaults_is_dict = isinstance(data__defaults, dict)
            if data__defaults_is_dict:
                data__defaults_keys = set(data__defaults.keys())
                if "autonomy" in data__defaults_keys:
                    data__defaults_keys.remove("autonomy")
                    data__defaults__autonomy = data__defaults["autonomy"]
                    validate___definitions_step_properties_autonomy(data__defaults__autonomy, custom_formats, (name_prefix or "data") + ".defaults.autonomy")
                if "error_policy" in data__defaults_keys:
                    data__defaults_keys.remove("error_policy")
                    data__defaults__errorpolicy = data__defaults["error_policy"]
                    validate___definitions_step_properties_error_policy(data__defaults__errorpolicy, custom_formats, (name_prefix or "data") + ".defaults.error_policy")
                if "timeout_seconds" in data__defaults_keys:
                    data__defaults_keys.remove("timeout_seconds")
                    data__defaults__timeoutseconds = data__defaults["timeout_seconds"]
                    validate___definitions_seconds(data__defaults__timeoutseconds, custom_formats, (name_prefix or "data") + ".defaults.timeout_seconds")
                if data__defaults_keys:
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".defaults must not contain "+str(data__defaults_keys)+" properties")
        if data_keys:
            raise JsonSchemaValueException("" + (name_prefix or "data") + " must not contain "+str(data_keys)+" properties")
    return data

def validate___definitions_step_properties_error_policy(data, custom_formats={}, name_prefix=None):
    try:
        if not isinstance(data, (dict)):
            raise JsonSchemaValueException("" + (name_prefix or "data") + " must be object")
    except JsonSchemaValueException:
        validate___definitions_reaction(data, custom_formats, (name_prefix or "data") + "")
    else:
        data_is_dict = isinstance(data, dict)
        if data_is_dict:
            data_len = len(data)
            if data_len < 1:
                raise JsonSchemaValueException("" + (name_prefix or "data") + " must contain at least 1 properties")
            data_keys = set(data.keys())
            if "default" in data_keys:
                data_keys.remove("default")
                data__default = data["default"]
                validate___definitions_reaction(data__default, custom_formats, (name_prefix or "data") + ".default")
            for data_key in data_keys:
                if data_key not in ['default']:
                    data_value = data.get(data_key)
                    validate___definitions_reaction(data_value, custom_formats, (name_prefix or "data") + ".{data_key}".format(**locals()))
            if data_len != 0:
                data_property_names = True
                for data_key in data:
                    try:
                        if isinstance(data_key, str):
                            if not REGEX_PATTERNS['^(?:default|PB(?:-[A-Z0-9]+)+)$(?!\\n)'].search(data_key):
                                raise JsonSchemaValueException("" + (name_prefix or "data") + " must match pattern ^(?:default|PB(?:-[A-Z0-9]+)+)$(?!\\n)")
                    except JsonSchemaValueException:
                        data_property_names = False
                if not data_property_names:
                    raise JsonSchemaValueException("" + (name_prefix or "data") + " must be named by propertyName definition")
    return data

def validate___definitions_reaction(data, custom_formats={}, name_prefix=None):
    if not isinstance(data, (str)):
        raise JsonSchemaValueException("" + (name_prefix or "data") + " must be string")
    if not (isinstance(data, str) and data == 'stop' or isinstance(data, str) and data == 'retry_once' or isinstance(data, str) and data == 'gate' or isinstance(data, str) and data == 'continue' or isinstance(data, str) and data == 'ignore' or isinstance(data, str) and data == 'fail' or isinstance(data, str) and data == 'retry:1' or isinstance(data, str) and data == 'retry:2' or isinstance(data, str) and data == 'retry:3' or isinstance(data, str) and data == 'retry:4' or isinstance(data, str) and data == 'retry:5' or isinstance(data, str) and data == 'retry:6' or isinstance(data, str) and data == 'retry:7' or isinstance(data, str) and data == 'retry:8' or isinstance(data, str) and data == 'retry:9' or isinstance(data, str) and data == 'retry:10'):
        raise JsonSchemaValueException("" + (name_prefix or "data") + " must be one of ['stop', 'retry_once', 'gate', 'continue', 'ignore', 'fail', 'retry:1', 'retry:2', 'retry:3', 'retry:4', 'retry:5', 'retry:6', 'retry:7', 'retry:8', 'retry:9', 'retry:10']")
    return data

def validate___definitions_step_properties_autonomy(data, custom_formats={}, name_prefix=None):
    if not isinstance(data, (str)):
        raise JsonSchemaValueException("" + (name_prefix or "data") + " must be string")
    if not (isinstance(data, str) and data == 'auto' or isinstance(data, str) and data == 'gate_on_breaking' or isinstance(data, str) and data == 'gate_always' or isinstance(data, str) and data == 'skip'):
        raise JsonSchemaValueException("" + (name_prefix or "data") + " must be one of ['auto', 'gate_on_breaking', 'gate_always', 'skip']")
    return data

def validate___definitions_dollars(data, custom_formats={}, name_prefix=None):
    if not isinstance(data, (int, float)) or isinstance(data, bool):
        raise JsonSchemaValueException("" + (name_prefix or "data") + " must be number")
    if isinstance(data, (int, float)) and not isinstance(data, bool):
        if data <= 0:
            raise JsonSchemaValueException("" + (name_prefix or "data") + " must be bigger than 0")
    return data

def validate___definitions_count(data, custom_formats={}, name_prefix=None):
    if not isinstance(data, (int)) and not (isinstance(data, float) and data.is_integer()) or isinstance(data, bool):
        raise JsonSchemaValueException("" + (name_prefix or "data") + " must be integer")
    if isinstance(data, (int, float)) and not isinstance(data, bool):
        if data < 1:
            raise JsonSchemaValueException("" + (name_prefix or "data") + " must be bigger than or equal to 1")
    return data

def validate___definitions_seconds(data, custom_formats={}, name_prefix=None):
    if not isinstance(data, (int, float)) or isinstance(data, bool):
        raise JsonSchemaValueException("" + (name_prefix or "data") + " must be number")
    if isinstance(data, (int, float)) and not isinstance(data, bool):
        if data > 604800:
            raise JsonSchemaValueException("" + (name_prefix or "data") + " must be smaller than or equal to 604800")
        if data <= 0:
            raise JsonSchemaValueException("" + (name_prefix or "data") + " must be bigger than 0")
    return data

def validate___definitions_path(data, custom_formats={}, name_prefix=None):
    if not isinstance(data, (str)):
        raise JsonSchemaValueException("" + (name_prefix or "data") + " must be string")
    if isinstance(data, str):
        data_len = len(data)
        if data_len < 1:
            raise JsonSchemaValueException("" + (name_prefix or "data") + " must be longer than or equal to 1 characters")
        if data_len > 1000:
            raise JsonSchemaValueException("" + (name_prefix or "data") + " must be shorter than or equal to 1000 characters")
    return data

def validate___definitions_people(data, custom_formats={}, name_prefix=None):
    if not isinstance(data, (list, tuple)):
        raise JsonSchemaValueException("" + (name_prefix or "data") + " must be array")
    data_is_list = isinstance(data, (list, tuple))
    if data_is_list:
        data_len = len(data)
        for data_x, data_item in enumerate(data):
            if not isinstance(data_item, (str)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + "[{data_x}]".format(**locals()) + " must be string")
            if isinstance(data_item, str):
                data_item_len = len(data_item)
                if data_item_len < 1:
                    raise JsonSchemaValueException("" + (name_prefix or "data") + "[{data_x}]".format(**locals()) + " must be longer than or equal to 1 characters")
                if data_item_len > 100:
                    raise JsonSchemaValueException("" + (name_prefix or "data") + "[{data_x}]".format(**locals()) + " must be shorter than or equal to 100 characters")
    return data

def validate___definitions_step(data, custom_formats={}, name_prefix=None):
    if not isinstance(data, (dict)):
        raise JsonSchemaValueException("" + (name_prefix or "data") + " must be object")
    data_is_dict = isinstance(data, dict)
    if data_is_dict:
        data__missing_keys = set(['id', 'command']) - data.keys()
        if data__missing_keys:
            raise JsonSchemaValueException("" + (name_prefix or "data") + " must contain ")
        data_keys = set(data.keys())
        if "id" in data_keys:
            data_keys.remove("id")
            data__id = data["id"]
            validate___definitions_slug(data__id, custom_formats, (name_prefix or "data") + ".id")
        if "command" in data_keys:
            data_keys.remove("command")
            data__command = data["command"]
            if not isinstance(data__command, (str)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".command must be string")
            if isinstance(data__command, str):
                data__command_len = len(data__command)
                if data__command_len > 4000:
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".command must be shorter than or equal to 4000 characters")
                if not REGEX_PATTERNS['^(?:/[A-Za-z0-9][A-Za-z0-9_.:-]{0,198}|[a-z][a-z0-9_-]{0,60}(?: \\S(?:.*\\S)?)?)$(?!\\n)'].search(data__command):
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".command must match pattern ^(?:/[A-Za-z0-9][A-Za-z0-9_.:-]{0,198}|[a-z][a-z0-9_-]{0,60}(?: \\S(?:.*\\S)?)?)$(?!\\n)")
        if "args" in data_keys:
            data_keys.remove("args")
            data__args = data["args"]
            if not isinstance(data__args, (str)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".args must be string")
        if "autonomy" in data_keys:
            data_keys.remove("autonomy")
            data__autonomy = data["autonomy"]
            if not isinstance(data__autonomy, (str)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".autonomy must be string")
            if not (isinstance(data__autonomy, str) and data__autonomy == 'auto' or isinstance(data__autonomy, str) and data__autonomy == 'gate_on_breaking' or isinstance(data__autonomy, str) and data__autonomy == 'gate_always' or isinstance(data__autonomy, str) and data__autonomy == 'skip'):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".autonomy must be one of ['auto', 'gate_on_breaking', 'gate_always', 'skip']")
        if "model" in data_keys:
            data_keys.remove("model")
            data__model = data["model"]
            if not isinstance(data__model, (str)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".model must be string")
            if isinstance(data__model, str):
                data__model_len = len(data__model)
                if data__model_len > 200:
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".model must be shorter than or equal to 200 characters")
                if not REGEX_PATTERNS['^[A-Za-z0-9._:/@-]+$(?!\\n)'].search(data__model):
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".model must match pattern ^[A-Za-z0-9._:/@-]+$(?!\\n)")
        if "preconditions" in data_keys:
            data_keys.remove("preconditions")
            data__preconditions = data["preconditions"]
            if not isinstance(data__preconditions, (list, tuple)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".preconditions must be array")
            data__preconditions_is_list = isinstance(data__preconditions, (list, tuple))
            if data__preconditions_is_list:
                data__preconditions_len = len(data__preconditions)
                for data__preconditions_x, data__preconditions_item in enumerate(data__preconditions):
                    validate___definitions_condition(data__preconditions_item, custom_formats, (name_prefix or "data") + ".preconditions[{data__preconditions_x}]".format(**locals()))
        if "postconditions" in data_keys:
            data_keys.remove("postconditions")
            data__postconditions = data["postconditions"]
            if not isinstance(data__postconditions, (list, tuple)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".postconditions must be array")
            data__postconditions_is_list = isinstance(data__postconditions, (list, tuple))
            if data__postconditions_is_list:
                data__postconditions_len = len(data__postconditions)
                for data__postconditions_x, data__postconditions_item in enumerate(data__postconditions):
                    validate___definitions_condition(data__postconditions_item, custom_formats, (name_prefix or "data") + ".postconditions[{data__postconditions_x}]".format(**locals()))
        if "error_policy" in data_keys:
            data_keys.remove("error_policy")
            data__errorpolicy = data["error_policy"]
            try:
                if not isinstance(data__errorpolicy, (dict)):
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".error_policy must be object")
            except JsonSchemaValueException:
                validate___definitions_reaction(data__errorpolicy, custom_formats, (name_prefix or "data") + ".error_policy")
            else:
                data__errorpolicy_is_dict = isinstance(data__errorpolicy, dict)
                if data__errorpolicy_is_dict:
                    data__errorpolicy_len = len(data__errorpolicy)
                    if data__errorpolicy_len < 1:
                        raise JsonSchemaValueException("" + (name_prefix or "data") + ".error_policy must contain at least 1 properties")
                    data__errorpolicy_keys = set(data__errorpolicy.keys())
                    if "default" in data__errorpolicy_keys:
                        data__errorpolicy_keys.remove("default")
                        data__errorpolicy__default = data__errorpolicy["default"]
                        validate___definitions_reaction(data__errorpolicy__default, custom_formats, (name_prefix or "data") + ".error_policy.default")
                    for data__errorpolicy_key in data__errorpolicy_keys:
                        if data__errorpolicy_key not in ['default']:
                            data__errorpolicy_value = data__errorpolicy.get(data__errorpolicy_key)
                            validate___definitions_reaction(data__errorpolicy_value, custom_formats, (name_prefix or "data") + ".error_policy.{data__errorpolicy_key}".format(**locals()))
                    if data__errorpolicy_len != 0:
                        data__errorpolicy_property_names = True
                        for data__errorpolicy_key in data__errorpolicy:
                            try:
                                if isinstance(data__errorpolicy_key, str):
                                    if not REGEX_PATTERNS['^(?:default|PB(?:-[A-Z0-9]+)+)$(?!\\n)'].search(data__errorpolicy_key):
                                        raise JsonSchemaValueException("" + (name_prefix or "data") + ".error_policy must match pattern ^(?:default|PB(?:-[A-Z0-9]+)+)$(?!\\n)")
                            except JsonSchemaValueException:
                                data__errorpolicy_property_names = False
                        if not data__errorpolicy_property_names:
                            raise JsonSchemaValueException("" + (name_prefix or "data") + ".error_policy must be named by propertyName definition")
        if "escalation_triggers" in data_keys:
            data_keys.remove("escalation_triggers")
            data__escalationtriggers = data["escalation_triggers"]
            if not isinstance(data__escalationtriggers, (list, tuple)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".escalation_triggers must be array")
            data__escalationtriggers_is_list = isinstance(data__escalationtriggers, (list, tuple))
            if data__escalationtriggers_is_list:
                data__escalationtriggers_len = len(data__escalationtriggers)
                for data__escalationtriggers_x, data__escalationtriggers_item in enumerate(data__escalationtriggers):
                    validate___definitions_trigger(data__escalationtriggers_item, custom_formats, (name_prefix or "data") + ".escalation_triggers[{data__escalationtriggers_x}]".format(**locals()))
        if "parallel_group" in data_keys:
            data_keys.remove("parallel_group")
            data__parallelgroup = data["parallel_group"]
            if not isinstance(data__parallelgroup, (str)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".parallel_group must be string")
            if isinstance(data__parallelgroup, str):
                data__parallelgroup_len = len(data__parallelgroup)
                if data__parallelgroup_len > 100:
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".parallel_group must be shorter than or equal to 100 characters")
                if not REGEX_PATTERNS['^\\S(?:.*\\S)?$(?!\\n)'].search(data__parallelgroup):
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".parallel_group must match pattern ^\\S(?:.*\\S)?$(?!\\n)")
        if "title" in data_keys:
            data_keys.remove("title")
            data__title = data["title"]
            if not isinstance(data__title, (str)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".title must be string")
            if isinstance(data__title, str):
                data__title_len = len(data__title)
                if data__title_len > 200:
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".title must be shorter than or equal to 200 characters")
        if "with" in data_keys:
            data_keys.remove("with")
            data__with = data["with"]
            if not isinstance(data__with, (dict)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".with must be object")
        if "stdin" in data_keys:
            data_keys.remove("stdin")
            data__stdin = data["stdin"]
            if not isinstance(data__stdin, (str)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".stdin must be string")
            if isinstance(data__stdin, str):
                data__stdin_len = len(data__stdin)
                if data__stdin_len > 200:
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".stdin must be shorter than or equal to 200 characters")
                if not REGEX_PATTERNS['^\\$[a-z0-9][a-z0-9-]*\\.(?:stdout|json)$(?!\\n)'].search(data__stdin):
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".stdin must match pattern ^\\$[a-z0-9][a-z0-9-]*\\.(?:stdout|json)$(?!\\n)")
        if "output" in data_keys:
            data_keys.remove("output")
            data__output = data["output"]
            if not isinstance(data__output, (str)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".output must be string")
            if not (isinstance(data__output, str) and data__output == 'text' or isinstance(data__output, str) and data__output == 'json'):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".output must be one of ['text', 'json']")
        if "output_schema" in data_keys:
            data_keys.remove("output_schema")
            data__outputschema = data["output_schema"]
            if not isinstance(data__outputschema, (dict)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".output_schema must be object")
        if "when" in data_keys:
            data_keys.remove("when")
            data__when = data["when"]
            if not isinstance(data__when, (str)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".when must be string")
            if isinstance(data__when, str):
                data__when_len = len(data__when)
                if data__when_len < 1:
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".when must be longer than or equal to 1 characters")
                if data__when_len > 1000:
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".when must be shorter than or equal to 1000 characters")
        if "skip_if" in data_keys:
            data_keys.remove("skip_if")
            data__skipif = data["skip_if"]
            if not isinstance(data__skipif, (list, tuple)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".skip_if must be array")
            data__skipif_is_list = isinstance(data__skipif, (list, tuple))
            if data__skipif_is_list:
                data__skipif_len = len(data__skipif)
                if data__skipif_len < 1:
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".skip_if must contain at least 1 items")
                for data__skipif_x, data__skipif_item in enumerate(data__skipif):
                    validate___definitions_condition(data__skipif_item, custom_formats, (name_prefix or "data") + ".skip_if[{data__skipif_x}]".format(**locals()))
        if "for_each" in data_keys:
            data_keys.remove("for_each")
            data__foreach = data["for_each"]
            if not isinstance(data__foreach, (dict)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".for_each must be object")
            data__foreach_is_dict = isinstance(data__foreach, dict)
            if data__foreach_is_dict:
                data__foreach__missing_keys = set(['in', 'as']) - data__foreach.keys()
                if data__foreach__missing_keys:
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".for_each must contain ")
                data__foreach_keys = set(data__foreach.keys())
                if "in" in data__foreach_keys:
                    data__foreach_keys.remove("in")
                    data__foreach__in = data__foreach["in"]
                    if not isinstance(data__foreach__in, (str)):
                        raise JsonSchemaValueException("" + (name_prefix or "data") + ".for_each.in must be string")
                    if isinstance(data__foreach__in, str):
                        data__foreach__in_len = len(data__foreach__in)
                        if data__foreach__in_len > 200:
                            raise JsonSchemaValueException("" + (name_prefix or "data") + ".for_each.in must be shorter than or equal to 200 characters")
                        if not REGEX_PATTERNS['^\\$[a-z0-9][a-z0-9_-]*(?:\\.json(?:\\.[A-Za-z_][A-Za-z0-9_-]*|\\[[0-9]{1,6}\\])*)?$(?!\\n)'].search(data__foreach__in):
                            raise JsonSchemaValueException("" + (name_prefix or "data") + ".for_each.in must match pattern ^\\$[a-z0-9][a-z0-9_-]*(?:\\.json(?:\\.[A-Za-z_][A-Za-z0-9_-]*|\\[[0-9]{1,6}\\])*)?$(?!\\n)")
                if "as" in data__foreach_keys:
                    data__foreach_keys.remove("as")
                    data__foreach__as = data__foreach["as"]
                    if not isinstance(data__foreach__as, (str)):
                        raise JsonSchemaValueException("" + (name_prefix or "data") + ".for_each.as must be string")
                    if isinstance(data__foreach__as, str):
                        data__foreach__as_len = len(data__foreach__as)
                        if data__foreach__as_len > 100:
                            raise JsonSchemaValueException("" + (name_prefix or "data") + ".for_each.as must be shorter than or equal to 100 characters")
                        if not REGEX_PATTERNS['^[a-z][a-z0-9_-]*$(?!\\n)'].search(data__foreach__as):
                            raise JsonSchemaValueException("" + (name_prefix or "data") + ".for_each.as must match pattern ^[a-z][a-z0-9_-]*$(?!\\n)")
                if "max" in data__foreach_keys:
                    data__foreach_keys.remove("max")
                    data__foreach__max = data__foreach["max"]
                    if not isinstance(data__foreach__max, (int)) and not (isinstance(data__foreach__max, float) and data__foreach__max.is_integer()) or isinstance(data__foreach__max, bool):
                        raise JsonSchemaValueException("" + (name_prefix or "data") + ".for_each.max must be integer")
                    if isinstance(data__foreach__max, (int, float)) and not isinstance(data__foreach__max, bool):
                        if data__foreach__max < 1:
                            raise JsonSchemaValueException("" + (name_prefix or "data") + ".for_each.max must be bigger than or equal to 1")
                        if data__foreach__max > 10000:
                            raise JsonSchemaValueException("" + (name_prefix or "data") + ".for_each.max must be smaller than or equal to 10000")
                if "at_once" in data__foreach_keys:
                    data__foreach_keys.remove("at_once")
                    data__foreach__atonce = data__foreach["at_once"]
                    if not isinstance(data__foreach__atonce, (int)) and not (isinstance(data__foreach__atonce, float) and data__foreach__atonce.is_integer()) or isinstance(data__foreach__atonce, bool):
                        raise JsonSchemaValueException("" + (name_prefix or "data") + ".for_each.at_once must be integer")
                    if isinstance(data__foreach__atonce, (int, float)) and not isinstance(data__foreach__atonce, bool):
                        if data__foreach__atonce < 1:
                            raise JsonSchemaValueException("" + (name_prefix or "data") + ".for_each.at_once must be bigger than or equal to 1")
                        if data__foreach__atonce > 32:
                            raise JsonSchemaValueException("" + (name_prefix or "data") + ".for_each.at_once must be smaller than or equal to 32")
                if data__foreach_keys:
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".for_each must not contain "+str(data__foreach_keys)+" properties")
        if "until" in data_keys:
            data_keys.remove("until")
            data__until = data["until"]
            if not isinstance(data__until, (dict)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".until must be object")
            data__until_is_dict = isinstance(data__until, dict)
            if data__until_is_dict:
                data__until__missing_keys = set(['conditions', 'max']) - data__until.keys()
                if data__until__missing_keys:
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".until must contain ")
                data__until_keys = set(data__until.keys())
                if "conditions" in data__until_keys:
                    data__until_keys.remove("conditions")
                    data__until__conditions = data__until["conditions"]
                    if not isinstance(data__until__conditions, (list, tuple)):
                        raise JsonSchemaValueException("" + (name_prefix or "data") + ".until.conditions must be array")
                    data__until__conditions_is_list = isinstance(data__until__conditions, (list, tuple))
                    if data__until__conditions_is_list:
                        data__until__conditions_len = len(data__until__conditions)
                        if data__until__conditions_len < 1:
                            raise JsonSchemaValueException("" + (name_prefix or "data") + ".until.conditions must contain at least 1 items")
                        for data__until__conditions_x, data__until__conditions_item in enumerate(data__until__conditions):
                            validate___definitions_condition(data__until__conditions_item, custom_formats, (name_prefix or "data") + ".until.conditions[{data__until__conditions_x}]".format(**locals()))
                if "max" in data__until_keys:
                    data__until_keys.remove("max")
                    data__until__max = data__until["max"]
                    if not isinstance(data__until__max, (int)) and not (isinstance(data__until__max, float) and data__until__max.is_integer()) or isinstance(data__until__max, bool):
                        raise JsonSchemaValueException("" + (name_prefix or "data") + ".until.max must be integer")
                    if isinstance(data__until__max, (int, float)) and not isinstance(data__until__max, bool):
                        if data__until__max < 1:
                            raise JsonSchemaValueException("" + (name_prefix or "data") + ".until.max must be bigger than or equal to 1")
                        if data__until__max > 100:
                            raise JsonSchemaValueException("" + (name_prefix or "data") + ".until.max must be smaller than or equal to 100")
                if data__until_keys:
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".until must not contain "+str(data__until_keys)+" properties")
        if "approval" in data_keys:
            data_keys.remove("approval")
            data__approval = data["approval"]
            if not (isinstance(data__approval, str) and data__approval == 'required'):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".approval must be one of ['required']")
        if "checkpoint" in data_keys:
            data_keys.remove("checkpoint")
            data__checkpoint = data["checkpoint"]
            if not isinstance(data__checkpoint, (bool)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".checkpoint must be boolean")
        if "cache" in data_keys:
            data_keys.remove("cache")
            data__cache = data["cache"]
            if not isinstance(data__cache, (dict)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".cache must be object")
            data__cache_is_dict = isinstance(data__cache, dict)
            if data__cache_is_dict:
                data__cache__missing_keys = set(['files']) - data__cache.keys()
                if data__cache__missing_keys:
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".cache must contain ")
                data__cache_keys = set(data__cache.keys())
                if "files" in data__cache_keys:
                    data__cache_keys.remove("files")
                    data__cache__files = data__cache["files"]
                    if not isinstance(data__cache__files, (list, tuple)):
                        raise JsonSchemaValueException("" + (name_prefix or "data") + ".cache.files must be array")
                    data__cache__files_is_list = isinstance(data__cache__files, (list, tuple))
                    if data__cache__files_is_list:
                        data__cache__files_len = len(data__cache__files)
                        for data__cache__files_x, data__cache__files_item in enumerate(data__cache__files):
                            validate___definitions_path(data__cache__files_item, custom_formats, (name_prefix or "data") + ".cache.files[{data__cache__files_x}]".format(**locals()))
                if data__cache_keys:
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".cache must not contain "+str(data__cache_keys)+" properties")
        if "outputs" in data_keys:
            data_keys.remove("outputs")
            data__outputs = data["outputs"]
            if not isinstance(data__outputs, (list, tuple)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".outputs must be array")
            data__outputs_is_list = isinstance(data__outputs, (list, tuple))
            if data__outputs_is_list:
                data__outputs_len = len(data__outputs)
                for data__outputs_x, data__outputs_item in enumerate(data__outputs):
                    validate___definitions_path(data__outputs_item, custom_formats, (name_prefix or "data") + ".outputs[{data__outputs_x}]".format(**locals()))
        if "cwd" in data_keys:
            data_keys.remove("cwd")
            data__cwd = data["cwd"]
            validate___definitions_path(data__cwd, custom_formats, (name_prefix or "data") + ".cwd")
        if "tools" in data_keys:
            data_keys.remove("tools")
            data__tools = data["tools"]
            if not isinstance(data__tools, (list, tuple)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".tools must be array")
            data__tools_is_list = isinstance(data__tools, (list, tuple))
            if data__tools_is_list:
                data__tools_len = len(data__tools)
                for data__tools_x, data__tools_item in enumerate(data__tools):
                    if not isinstance(data__tools_item, (str)):
                        raise JsonSchemaValueException("" + (name_prefix or "data") + ".tools[{data__tools_x}]".format(**locals()) + " must be string")
                    if isinstance(data__tools_item, str):
                        data__tools_item_len = len(data__tools_item)
                        if data__tools_item_len < 1:
                            raise JsonSchemaValueException("" + (name_prefix or "data") + ".tools[{data__tools_x}]".format(**locals()) + " must be longer than or equal to 1 characters")
                        if data__tools_item_len > 200:
                            raise JsonSchemaValueException("" + (name_prefix or "data") + ".tools[{data__tools_x}]".format(**locals()) + " must be shorter than or equal to 200 characters")
        if "feedback" in data_keys:
            data_keys.remove("feedback")
            data__feedback = data["feedback"]
            if not isinstance(data__feedback, (bool)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".feedback must be boolean")
        if "timeout_seconds" in data_keys:
            data_keys.remove("timeout_seconds")
            data__timeoutseconds = data["timeout_seconds"]
            validate___definitions_seconds(data__timeoutseconds, custom_formats, (name_prefix or "data") + ".timeout_seconds")
        if "idle_timeout_seconds" in data_keys:
            data_keys.remove("idle_timeout_seconds")
            data__idletimeoutseconds = data["idle_timeout_seconds"]
            validate___definitions_seconds(data__idletimeoutseconds, custom_formats, (name_prefix or "data") + ".idle_timeout_seconds")
        if "max_output_bytes" in data_keys:
            data_keys.remove("max_output_bytes")
            data__maxoutputbytes = data["max_output_bytes"]
            validate___definitions_count(data__maxoutputbytes, custom_formats, (name_prefix or "data") + ".max_output_bytes")
        if "max_cost_usd" in data_keys:
            data_keys.remove("max_cost_usd")
            data__maxcostusd = data["max_cost_usd"]
            validate___definitions_dollars(data__maxcostusd, custom_formats, (name_prefix or "data") + ".max_cost_usd")
        if "max_tokens" in data_keys:
            data_keys.remove("max_tokens")
            data__maxtokens = data["max_tokens"]
            validate___definitions_count(data__maxtokens, custom_formats, (name_prefix or "data") + ".max_tokens")
        if "max_turns" in data_keys:
            data_keys.remove("max_turns")
            data__maxturns = data["max_turns"]
            validate___definitions_count(data__maxturns, custom_formats, (name_prefix or "data") + ".max_turns")
        if "max_tool_calls" in data_keys:
            data_keys.remove("max_tool_calls")
            data__maxtoolcalls = data["max_tool_calls"]
            validate___definitions_count(data__maxtoolcalls, custom_formats, (name_prefix or "data") + ".max_tool_calls")
        if data_keys:
            raise JsonSchemaValueException("" + (name_prefix or "data") + " must not contain "+str(data_keys)+" properties")
    return data

def validate___definitions_trigger(data, custom_formats={}, name_prefix=None):
    if not isinstance(data, (str)):
        raise JsonSchemaValueException("" + (name_prefix or "data") + " must be string")
    if not (isinstance(data, str) and data == 'subagent_error' or isinstance(data, str) and data == 'agreement_breaking' or isinstance(data, str) and data == 'verdict_fail' or isinstance(data, str) and data == 'postcondition_fail'):
        raise JsonSchemaValueException("" + (name_prefix or "data") + " must be one of ['subagent_error', 'agreement_breaking', 'verdict_fail', 'postcondition_fail']")
    return data

def validate___definitions_condition(data, custom_formats={}, name_prefix=None):
    try:
        if not isinstance(data, (dict)):
            raise JsonSchemaValueException("" + (name_prefix or "data") + " must be object")
    except JsonSchemaValueException:
        if not isinstance(data, (str)):
            raise JsonSchemaValueException("" + (name_prefix or "data") + " must be string")
        if not (isinstance(data, str) and data == 'spec_exists' or isinstance(data, str) and data == 'plan_exists' or isinstance(data, str) and data == 'tasks_exists' or isinstance(data, str) and data == 'agreement_exists' or isinstance(data, str) and data == 'agreement_pass' or isinstance(data, str) and data == 'qa_plan_exists' or isinstance(data, str) and data == 'qa_verdict_pass' or isinstance(data, str) and data == 'pr_created' or isinstance(data, str) and data == 'tasks_done' or isinstance(data, str) and data == 'git_clean' or isinstance(data, str) and data == 'commits_made'):
            raise JsonSchemaValueException("" + (name_prefix or "data") + " must be one of ['spec_exists', 'plan_exists', 'tasks_exists', 'agreement_exists', 'agreement_pass', 'qa_plan_exists', 'qa_verdict_pass', 'pr_created', 'tasks_done', 'git_clean', 'commits_made']")
    else:
        data_is_dict = isinstance(data, dict)
        if data_is_dict:
            data_len = len(data)
            if data_len < 1:
                raise JsonSchemaValueException("" + (name_prefix or "data") + " must contain at least 1 properties")
            if data_len > 1:
                raise JsonSchemaValueException("" + (name_prefix or "data") + " must contain less than or equal to 1 properties")
            data_keys = set(data.keys())
            if "file_exists" in data_keys:
                data_keys.remove("file_exists")
                data__fileexists = data["file_exists"]
                validate___definitions_path(data__fileexists, custom_formats, (name_prefix or "data") + ".file_exists")
            if "file_contains" in data_keys:
                data_keys.remove("file_contains")
                data__filecontains = data["file_contains"]
                if not isinstance(data__filecontains, (dict)):
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".file_contains must be object")
                data__filecontains_is_dict = isinstance(data__filecontains, dict)
                if data__filecontains_is_dict:
                    data__filecontains__missing_keys = set(['path', 'text']) - data__filecontains.keys()
                    if data__filecontains__missing_keys:
                        raise JsonSchemaValueException("" + (name_prefix or "data") + ".file_contains must contain ")
                    data__filecontains_keys = set(data__filecontains.keys())
                    if "path" in data__filecontains_keys:
                        data__filecontains_keys.remove("path")
                        data__filecontains__path = data__filecontains["path"]
                        validate___definitions_path(data__filecontains__path, custom_formats, (name_prefix or "data") + ".file_contains.path")
                    if "text" in data__filecontains_keys:
                        data__filecontains_keys.remove("text")
                        data__filecontains__text = data__filecontains["text"]
                        if not isinstance(data__filecontains__text, (str)):
                            raise JsonSchemaValueException("" + (name_prefix or "data") + ".file_contains.text must be string")
                        if isinstance(data__filecontains__text, str):
                            data__filecontains__text_len = len(data__filecontains__text)
                            if data__filecontains__text_len < 1:
                                raise JsonSchemaValueException("" + (name_prefix or "data") + ".file_contains.text must be longer than or equal to 1 characters")
                            if data__filecontains__text_len > 10000:
                                raise JsonSchemaValueException("" + (name_prefix or "data") + ".file_contains.text must be shorter than or equal to 10000 characters")
                    if data__filecontains_keys:
                        raise JsonSchemaValueException("" + (name_prefix or "data") + ".file_contains must not contain "+str(data__filecontains_keys)+" properties")
            if "branch_exists" in data_keys:
                data_keys.remove("branch_exists")
                data__branchexists = data["branch_exists"]
                validate___definitions_path(data__branchexists, custom_formats, (name_prefix or "data") + ".branch_exists")
            if "tag_exists" in data_keys:
                data_keys.remove("tag_exists")
                data__tagexists = data["tag_exists"]
                validate___definitions_path(data__tagexists, custom_formats, (name_prefix or "data") + ".tag_exists")
            if "verdict_pass" in data_keys:
                data_keys.remove("verdict_pass")
                data__verdictpass = data["verdict_pass"]
                validate___definitions_path(data__verdictpass, custom_formats, (name_prefix or "data") + ".verdict_pass")
            if "command_succeeds" in data_keys:
                data_keys.remove("command_succeeds")
                data__commandsucceeds = data["command_succeeds"]
                validate___definitions_path(data__commandsucceeds, custom_formats, (name_prefix or "data") + ".command_succeeds")
            if "command_fails" in data_keys:
                data_keys.remove("command_fails")
                data__commandfails = data["command_fails"]
                validate___definitions_path(data__commandfails, custom_formats, (name_prefix or "data") + ".command_fails")
            if "changes_made" in data_keys:
                data_keys.remove("changes_made")
                data__changesmade = data["changes_made"]
                validate___definitions_globs(data__changesmade, custom_formats, (name_prefix or "data") + ".changes_made")
            if "changes_within" in data_keys:
                data_keys.remove("changes_within")
                data__changeswithin = data["changes_within"]
                validate___definitions_globs(data__changeswithin, custom_formats, (name_prefix or "data") + ".changes_within")
            if data_keys:
                raise JsonSchemaValueException("" + (name_prefix or "data") + " must not contain "+str(data_keys)+" properties")
    return data

def validate___definitions_globs(data, custom_formats={}, name_prefix=None):
    try:
        if not isinstance(data, (list, tuple)):
            raise JsonSchemaValueException("" + (name_prefix or "data") + " must be array")
    except JsonSchemaValueException:
        validate___definitions_path(data, custom_formats, (name_prefix or "data") + "")
    else:
        data_is_list = isinstance(data, (list, tuple))
        if data_is_list:
            data_len = len(data)
            if data_len < 1:
                raise JsonSchemaValueException("" + (name_prefix or "data") + " must contain at least 1 items")
            for data_x, data_item in enumerate(data):
                validate___definitions_path(data_item, custom_formats, (name_prefix or "data") + "[{data_x}]".format(**locals()))
    return data

def validate___definitions_arg(data, custom_formats={}, name_prefix=None):
    if not isinstance(data, (dict)):
        raise JsonSchemaValueException("" + (name_prefix or "data") + " must be object")
    data_is_dict = isinstance(data, dict)
    if data_is_dict:
        data__missing_keys = set(['name', 'description', 'required']) - data.keys()
        if data__missing_keys:
            raise JsonSchemaValueException("" + (name_prefix or "data") + " must contain ")
        data_keys = set(data.keys())
        if "name" in data_keys:
            data_keys.remove("name")
            data__name = data["name"]
            if not isinstance(data__name, (str)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".name must be string")
            if isinstance(data__name, str):
                data__name_len = len(data__name)
                if data__name_len > 100:
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".name must be shorter than or equal to 100 characters")
                if not REGEX_PATTERNS['^[a-z][a-z0-9_-]*$(?!\\n)'].search(data__name):
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".name must match pattern ^[a-z][a-z0-9_-]*$(?!\\n)")
        if "description" in data_keys:
            data_keys.remove("description")
            data__description = data["description"]
            if not isinstance(data__description, (str)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".description must be string")
        if "required" in data_keys:
            data_keys.remove("required")
            data__required = data["required"]
            if not isinstance(data__required, (bool)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".required must be boolean")
        if "type" in data_keys:
            data_keys.remove("type")
            data__type = data["type"]
            if not isinstance(data__type, (str)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".type must be string")
            if not (isinstance(data__type, str) and data__type == 'string' or isinstance(data__type, str) and data__type == 'number' or isinstance(data__type, str) and data__type == 'boolean' or isinstance(data__type, str) and data__type == 'enum'):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".type must be one of ['string', 'number', 'boolean', 'enum']")
        if "values" in data_keys:
            data_keys.remove("values")
            data__values = data["values"]
            if not isinstance(data__values, (list, tuple)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".values must be array")
            data__values_is_list = isinstance(data__values, (list, tuple))
            if data__values_is_list:
                data__values_len = len(data__values)
                if data__values_len < 1:
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".values must contain at least 1 items")
                for data__values_x, data__values_item in enumerate(data__values):
                    if not isinstance(data__values_item, (str)):
                        raise JsonSchemaValueException("" + (name_prefix or "data") + ".values[{data__values_x}]".format(**locals()) + " must be string")
                    if isinstance(data__values_item, str):
                        data__values_item_len = len(data__values_item)
                        if data__values_item_len < 1:
                            raise JsonSchemaValueException("" + (name_prefix or "data") + ".values[{data__values_x}]".format(**locals()) + " must be longer than or equal to 1 characters")
        if "default" in data_keys:
            data_keys.remove("default")
            data__default = data["default"]
            if not isinstance(data__default, (str)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".default must be string")
        if "transform" in data_keys:
            data_keys.remove("transform")
            data__transform = data["transform"]
            if not isinstance(data__transform, (str)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".transform must be string")
            if not (isinstance(data__transform, str) and data__transform == 'kebab-case' or isinstance(data__transform, str) and data__transform == 'snake-case' or isinstance(data__transform, str) and data__transform == 'camel-case'):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".transform must be one of ['kebab-case', 'snake-case', 'camel-case']")
        if "secret" in data_keys:
            data_keys.remove("secret")
            data__secret = data["secret"]
            if not isinstance(data__secret, (bool)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".secret must be boolean")
        if data_keys:
            raise JsonSchemaValueException("" + (name_prefix or "data") + " must not contain "+str(data_keys)+" properties")
    return data

def validate___definitions_slug(data, custom_formats={}, name_prefix=None):
    if not isinstance(data, (str)):
        raise JsonSchemaValueException("" + (name_prefix or "data") + " must be string")
    if isinstance(data, str):
        data_len = len(data)
        if data_len > 100:
            raise JsonSchemaValueException("" + (name_prefix or "data") + " must be shorter than or equal to 100 characters")
        if not REGEX_PATTERNS['^[a-z0-9][a-z0-9-]*$(?!\\n)'].search(data):
            raise JsonSchemaValueException("" + (name_prefix or "data") + " must match pattern ^[a-z0-9][a-z0-9-]*$(?!\\n)")
    return data
