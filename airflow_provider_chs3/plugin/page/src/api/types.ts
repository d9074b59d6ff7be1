// Names for the types that are made from the API's own description of its answers.
import type { components } from "./schema";

type Schemas = components["schemas"];
export type Months = Schemas["Months"];
export type FailedRun = Schemas["FailedRun"];
export type ConnectionMonths = Schemas["ConnectionMonths"];
export type MonthRow = Schemas["MonthRow"];
export type State = MonthRow["state"];
export type Task = Schemas["Task"];
export type MonthDetails = Schemas["MonthDetails"];
export type Load = Schemas["Load"];
export type Inserting = Schemas["Inserting"];
export type FinishedLoad = Schemas["FinishedLoad"];
export type Failure = Schemas["Failure"];
export type Setting = Schemas["Setting"];
export type NodeOfMonth = Schemas["NodeOfMonth"];
export type MonthParts = Schemas["MonthParts"];
export type Speed = Schemas["Speed"];
export type ConnectionSpeed = Schemas["ConnectionSpeed"];
export type LoadSpeed = Schemas["LoadSpeed"];
export type Cluster = Schemas["Cluster"];
export type ConnectionNodes = Schemas["ConnectionNodes"];
export type NodeOverview = Schemas["NodeOverview"];
export type Rights = Schemas["Rights"];
export type DagRights = Schemas["DagRights"];
