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
    '^/[A-Za-z0-9][A-Za-z0-9_.:-]*$(?!\\n)': re.compile('^/[A-Za-z0-9][A-Za-z0-9_.:-]*\\Z(?!\\n)'),
    '^[A-Za-z0-9._:/@-]+$(?!\\n)': re.compile('^[A-Za-z0-9._:/@-]+\\Z(?!\\n)'),
    '^\\S(?:.*\\S)?$(?!\\n)': re.compile('^\\S(?:.*\\S)?\\Z(?!\\n)'),
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
        if data_keys:
            raise JsonSchemaValueException("" + (name_prefix or "data") + " must not contain "+str(data_keys)+" properties")
    return data

def validate___definitions_step(data, custom_formats={}, name_prefix=None):
    if not isinstance(data, (dict)):
        raise JsonSchemaValueException("" + (name_prefix or "data") + " must be object")
    data_is_dict = isinstance(data, dict)
    if data_is_dict:
        data__missing_keys = set(['id', 'command', 'autonomy', 'error_policy']) - data.keys()
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
                if data__command_len > 200:
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".command must be shorter than or equal to 200 characters")
                if not REGEX_PATTERNS['^/[A-Za-z0-9][A-Za-z0-9_.:-]*$(?!\\n)'].search(data__command):
                    raise JsonSchemaValueException("" + (name_prefix or "data") + ".command must match pattern ^/[A-Za-z0-9][A-Za-z0-9_.:-]*$(?!\\n)")
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
            if not isinstance(data__errorpolicy, (str)):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".error_policy must be string")
            if not (isinstance(data__errorpolicy, str) and data__errorpolicy == 'stop' or isinstance(data__errorpolicy, str) and data__errorpolicy == 'retry_once' or isinstance(data__errorpolicy, str) and data__errorpolicy == 'gate'):
                raise JsonSchemaValueException("" + (name_prefix or "data") + ".error_policy must be one of ['stop', 'retry_once', 'gate']")
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
    if not isinstance(data, (str)):
        raise JsonSchemaValueException("" + (name_prefix or "data") + " must be string")
    if not (isinstance(data, str) and data == 'spec_exists' or isinstance(data, str) and data == 'plan_exists' or isinstance(data, str) and data == 'tasks_exists' or isinstance(data, str) and data == 'agreement_exists' or isinstance(data, str) and data == 'agreement_pass' or isinstance(data, str) and data == 'qa_plan_exists' or isinstance(data, str) and data == 'qa_verdict_pass' or isinstance(data, str) and data == 'pr_created'):
        raise JsonSchemaValueException("" + (name_prefix or "data") + " must be one of ['spec_exists', 'plan_exists', 'tasks_exists', 'agreement_exists', 'agreement_pass', 'qa_plan_exists', 'qa_verdict_pass', 'pr_created']")
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
